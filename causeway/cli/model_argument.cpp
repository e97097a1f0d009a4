#include "causeway/cli/model_argument.h"

#include <optional>
#include <span>
#include <utility>

#include "causeway/base/console.h"
#include "causeway/base/error.h"
#include "causeway/cli/checkpoint_argument.h"
#include "causeway/model/hugging_face.h"
#include "causeway/model/peft_adapter.h"
#include "causeway/train/adapted_model.h"
#include "causeway/train/checkpoint/checkpoint_path.h"
#include "causeway/train/checkpoint/run_checkpoint.h"
#include "causeway/train/hugging_face/model_directory.h"

namespace causeway::cli {
namespace {

namespace fs = std::filesystem;

bool is_hugging_face_directory(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path / "config.json", ignored) && !fs::exists(path / kManifestName, ignored);
}

std::unique_ptr<Tokenizer> tokenizer_beside(const fs::path& directory) {
  try {
    return load_tokenizer(directory.string());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNotFound) throw;
    throw Error(ErrorKind::kNotFound, "holds no tokenizer", directory.string(),
                "Give one with --tokenizer: bytes, or the directory of a tokenizer.json or a GPT-2 vocabulary.");
  }
}

void open_hugging_face(OpenedModel& opened, const std::string& tokenizer, Recipe& recipe) {
  opened.template_directories = {opened.directory};
  opened.tokenizer = tokenizer.empty() ? tokenizer_beside(opened.directory) : load_tokenizer(tokenizer);
  opened.end_tokens = train::end_tokens_in(opened.directory, *opened.tokenizer);
  recipe.train.precision = Precision::kF32;
  try {
    opened.model = load_hugging_face_model(opened.directory);
  } catch (const Error& error) {
    throw naming_directory_of(error, opened.directory.string());
  }
  // What training alone would do makes no difference to what is computed with it here.
  const OtherEntries entries = other_entries_of(opened.model->config());
  for (const std::string& note : notes_on({entries.unknown, {}})) notice("note: {}\n", note);
}

// Data that was prepared before that was recorded has nothing before its documents; what stands in token files that
// others made is not known.
bool stood_around_documents(const CheckpointReader& checkpoint, const Tokenizer& tokenizer) {
  if (checkpoint.state().tokenizer_fingerprint.empty()) return true;
  const nlohmann::json& data = checkpoint.state().data;
  const nlohmann::json before = data.is_object() ? data.value("before_documents", nlohmann::json()) : nlohmann::json();
  return (before.is_null() ? nlohmann::json::array() : before) == nlohmann::json(tokenizer.around_text().before);
}

void take_tokenizer(OpenedModel& opened, const CheckpointReader& checkpoint, const std::string& tokenizer) {
  opened.tokenizer = tokenizer.empty() ? checkpoint_tokenizer(checkpoint) : load_tokenizer(tokenizer);
  if (const std::string& expected = checkpoint.state().tokenizer_fingerprint;
      !expected.empty() && expected != opened.tokenizer->fingerprint())
    throw Error(ErrorKind::kInvalidArgument, "the tokenizer is not the one the model was trained with",
                tokenizer.empty() ? checkpoint.directory().string() : tokenizer,
                "Give the right one with --tokenizer.");
  opened.end_tokens = train::end_tokens_of_tokenizer(*opened.tokenizer);
  opened.adds_special_tokens = stood_around_documents(checkpoint, *opened.tokenizer);
  // A checkpoint has the template that its conversations were rendered with.
  opened.template_directories.push_back(checkpoint.directory());
  if (const std::string from = checkpoint_recipe(checkpoint).model_from; !from.empty())
    opened.template_directories.emplace_back(from);
}

void open_checkpoint(OpenedModel& opened, const std::string& tokenizer, Recipe& recipe) {
  const CheckpointReader checkpoint(opened.directory);
  recipe = checkpoint_recipe(checkpoint);
  take_tokenizer(opened, checkpoint, tokenizer);
  opened.model = load_checkpoint_model(checkpoint);
}

// With the tokenizer of the base.
void open_adapted(OpenedModel& opened, const fs::path& base, std::span<const train::WeightedAdapter> adapters,
                  train::AdapterCombination combination, const std::string& tokenizer, Recipe& recipe) {
  train::AdaptedModel adapted = train::load_adapted_model(base, adapters, combination);
  const fs::path directory = adapted.recipe.model_from;
  for (const train::WeightedAdapter& one : adapters) opened.template_directories.push_back(one.adapter->directory());
  if (train::is_checkpoint(directory)) {
    take_tokenizer(opened, CheckpointReader(directory), tokenizer);
  } else {
    opened.tokenizer = tokenizer.empty() ? tokenizer_beside(directory) : load_tokenizer(tokenizer);
    opened.end_tokens = train::end_tokens_in(directory, *opened.tokenizer);
    opened.template_directories.push_back(directory);
  }
  opened.model = std::move(adapted.model);
  recipe = std::move(adapted.recipe);
}

// What PEFT saved, with the base that it names.
void open_adapter(OpenedModel& opened, const std::string& tokenizer, Recipe& recipe) {
  const train::WeightedAdapter adapter{train::StoredAdapter::open(opened.directory), 1};
  const std::string& base = adapter.adapter->base();
  if (!is_hugging_face_directory(base) && !train::is_checkpoint(base))
    throw Error(ErrorKind::kNotFound,
                fmt::format("the base model of the adapter is '{}', no directory with a model", base),
                (opened.directory / kPeftConfigName).string(),
                "Fetch the model, and name its directory under base_model_name_or_path; or name the base as the model, "
                "and the adapter with --adapter.");
  open_adapted(opened, base, std::span(&adapter, 1), train::AdapterCombination::kCat, tokenizer, recipe);
}

}  // namespace

std::vector<train::WeightedAdapter> AdapterArguments::opened() const {
  std::vector<train::WeightedAdapter> all;
  for (const std::string& one : adapters) all.push_back(train::parse_weighted_adapter(one));
  return all;
}

train::AdapterCombination AdapterArguments::parsed_combination() const {
  return *value_named<train::AdapterCombination>(combination);
}

void add_adapter_options(CLI::App& command, AdapterArguments& arguments) {
  CLI::Option* const adapters =
      command
          .add_option(
              "--adapter", arguments.adapters,
              "Adapters over the model: a directory that PEFT saved, a run or a checkpoint, with =WEIGHT behind "
              "it where that is not 1; may be given several times")
          ->allow_extra_args(false);
  command
      .add_option(
          "--adapter-combination", arguments.combination,
          "How several become one, as PEFT has it: cat (what they add is added up) or linear (their factors are)")
      ->check(CLI::IsMember(names_of<train::AdapterCombination>()))
      ->needs(adapters)
      ->capture_default_str();
}

OpenedModel open_model(const fs::path& path, const std::string& tokenizer, std::optional<Precision> precision,
                       const AdapterArguments& adapters) {
  OpenedModel opened;
  Recipe recipe;
  if (adapters.are_given()) {
    opened.directory = path;
    if (std::error_code code; fs::exists(path / kPeftConfigName, code))
      throw Error(ErrorKind::kInvalidArgument, "is an adapter, over which there are no others", path.string(),
                  "Name its base, and this among the adapters: --adapter DIRECTORY.");
    open_adapted(opened, path, adapters.opened(), adapters.parsed_combination(), tokenizer, recipe);
  } else if (is_hugging_face_directory(path)) {
    opened.directory = path;
    open_hugging_face(opened, tokenizer, recipe);
  } else if (std::filesystem::exists(path / kPeftConfigName)) {
    opened.directory = path;
    open_adapter(opened, tokenizer, recipe);
  } else {
    read_checkpoint(path, [&](const fs::path& checkpoint) {
      opened.directory = checkpoint;
      open_checkpoint(opened, tokenizer, recipe);
    });
  }
  if (opened.model->config().score_head)
    throw Error(ErrorKind::kUnsupported, "is a reward model, which gives scores and writes no text",
                opened.directory.string(), "Name a language model; causeway export writes this one for transformers.");
  if (!tokenizer.empty()) opened.template_directories.emplace_back(tokenizer);
  if (precision) recipe.train.precision = *precision;
  opened.precision = recipe.train.precision;
  opened.pipeline = pipeline_options(recipe);
  return opened;
}

}  // namespace causeway::cli
