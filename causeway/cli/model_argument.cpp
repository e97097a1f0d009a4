#include "causeway/cli/model_argument.h"

#include <optional>

#include "causeway/base/console.h"
#include "causeway/base/error.h"
#include "causeway/cli/checkpoint_argument.h"
#include "causeway/model/hugging_face.h"
#include "causeway/model/peft_adapter.h"
#include "causeway/train/checkpoint/run_checkpoint.h"
#include "causeway/train/hugging_face/model_directory.h"
#include "causeway/train/initial_weights.h"

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

// What PEFT saved, with the base that it names.
void open_adapter(OpenedModel& opened, const std::string& tokenizer, Recipe& recipe) {
  const PeftAdapter adapter = read_peft_config(opened.directory);
  const fs::path base = adapter.base;
  if (!is_hugging_face_directory(base))
    throw Error(ErrorKind::kNotFound,
                fmt::format("the base model of the adapter is '{}', no directory with a model", adapter.base),
                (opened.directory / kPeftConfigName).string(),
                "Fetch the model, and name its directory under base_model_name_or_path.");
  opened.tokenizer = tokenizer.empty() ? tokenizer_beside(base) : load_tokenizer(tokenizer);
  opened.end_tokens = train::end_tokens_in(base, *opened.tokenizer);
  recipe.train.precision = Precision::kF32;
  recipe.model = read_hugging_face_config(base);
  recipe.model_from = adapter.base;
  recipe.adapter = adapter.adapter;
  recipe.adapter.base = adapter.base_weights;
  NewWeights weights = new_weights(recipe);
  weights.storage = WeightStorage::kElements;
  opened.model = LanguageModel::create(recipe.model, ModelPart(recipe.model.layers), weights);
  require_targets(*opened.model);
  load_base_weights(recipe, adapter.base_identity, *opened.model);
  load_peft_weights(*opened.model, opened.directory);
}

// Data that was prepared before that was recorded has nothing before its documents; what stands in token files that
// others made is not known.
bool stood_around_documents(const CheckpointReader& checkpoint, const Tokenizer& tokenizer) {
  if (checkpoint.state().tokenizer_fingerprint.empty()) return true;
  const nlohmann::json& data = checkpoint.state().data;
  const nlohmann::json before = data.is_object() ? data.value("before_documents", nlohmann::json()) : nlohmann::json();
  return (before.is_null() ? nlohmann::json::array() : before) == nlohmann::json(tokenizer.around_text().before);
}

void open_checkpoint(OpenedModel& opened, const std::string& tokenizer, Recipe& recipe) {
  const CheckpointReader checkpoint(opened.directory);
  recipe = checkpoint_recipe(checkpoint);
  opened.tokenizer = tokenizer.empty() ? checkpoint_tokenizer(checkpoint) : load_tokenizer(tokenizer);
  if (const std::string& expected = checkpoint.state().tokenizer_fingerprint;
      !expected.empty() && expected != opened.tokenizer->fingerprint())
    throw Error(ErrorKind::kInvalidArgument, "the tokenizer is not the one the model was trained with",
                tokenizer.empty() ? opened.directory.string() : tokenizer, "Give the right one with --tokenizer.");
  opened.end_tokens = train::end_tokens_of_tokenizer(*opened.tokenizer);
  opened.adds_special_tokens = stood_around_documents(checkpoint, *opened.tokenizer);
  opened.model = load_checkpoint_model(checkpoint);
}

}  // namespace

OpenedModel open_model(const fs::path& path, const std::string& tokenizer, std::optional<Precision> precision) {
  OpenedModel opened;
  Recipe recipe;
  if (is_hugging_face_directory(path)) {
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
  if (precision) recipe.train.precision = *precision;
  opened.precision = recipe.train.precision;
  opened.pipeline = pipeline_options(recipe);
  return opened;
}

}  // namespace causeway::cli
