#include "causeway/train/hugging_face/export_checkpoint.h"

#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/formats/chat_template/template_files.h"
#include "causeway/model/hugging_face.h"
#include "causeway/train/adapted_model.h"
#include "causeway/train/checkpoint/checkpoint_path.h"
#include "causeway/train/checkpoint/run_checkpoint.h"
#include "causeway/train/hugging_face/export_adapter.h"
#include "causeway/train/hugging_face/model_directory.h"
#include "causeway/train/stored_model.h"

namespace causeway::train {
namespace {

// Of the logits of base and adapters, which are multiplied one after the other, to those of their sum in f32.
constexpr double kMostByMerging = 1e-4;

// The tokenizer of a checkpoint or a Hugging Face directory, for the probe; nothing where it has none.
std::unique_ptr<Tokenizer> tokenizer_of(const std::filesystem::path& directory) {
  try {
    return is_checkpoint(directory) ? checkpoint_tokenizer(CheckpointReader(directory))
                                    : load_tokenizer(directory.string());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNotFound) throw;
    return nullptr;
  }
}

// And where it comes from, for people.
struct FoundCompanions {
  ModelCompanions companions;
  std::string source;
};

// A directory whose tokenizer cannot be read holds another one.
bool is_tokenizer_in(const std::string& directory, const Tokenizer& tokenizer) {
  try {
    return load_tokenizer(directory)->fingerprint() == tokenizer.fingerprint();
  } catch (const Error&) {
    return false;
  }
}

// The directory that the model came from in the end: a run may have begun with another one's checkpoint. Empty where
// there is none, or it is not known any more.
std::string hugging_face_origin(const Recipe& recipe) {
  constexpr int kMostRuns = 100;
  std::string directory = recipe.model_from;
  try {
    for (int runs = 0; runs < kMostRuns && is_checkpoint(directory); ++runs)
      directory = checkpoint_recipe(CheckpointReader(directory)).model_from;
  } catch (const Error&) {
    return {};
  }
  return is_checkpoint(directory) ? std::string() : directory;
}

FoundCompanions find_companions(const ExportOptions& options, const Recipe& recipe, const Tokenizer* tokenizer) {
  if (!options.tokenizer_directory.empty()) {
    ModelCompanions companions = companions_in(options.tokenizer_directory);
    companions.others_are_usual = false;  // to another model, perhaps
    if (companions.tokenizer_files.empty())
      throw Error(ErrorKind::kNotFound, "holds no file of a tokenizer", options.tokenizer_directory,
                  "Give a directory with tokenizer.json, tokenizer.model, or vocab.json and merges.txt.");
    return {std::move(companions), options.tokenizer_directory};
  }
  if (tokenizer != nullptr && tokenizer->files().empty())
    return {companions_of(*tokenizer, recipe.model), "a token is a byte: its tokenizer.json"};
  // What the model came with says more than a tokenizer does: which tokens begin, end and fill texts, templates of
  // chats.
  std::error_code code;
  const std::string origin = hugging_face_origin(recipe);
  if (!origin.empty() && std::filesystem::is_directory(origin, code) &&
      (tokenizer == nullptr || is_tokenizer_in(origin, *tokenizer))) {
    ModelCompanions companions = companions_in(origin);
    if (!companions.tokenizer_files.empty()) return {std::move(companions), origin};
  }
  if (tokenizer != nullptr) return {companions_of(*tokenizer, recipe.model), "the checkpoint's"};
  return {{}, "none: the data that the model was trained on carried none"};
}

// ExportResult::base_error.
double base_error(const LanguageModel& adapted, const std::string& directory) {
  const std::unique_ptr<StoredModel> base = open_base(directory, "");
  double apart = 0, size = 0;
  for (Matrix alone : adapted.matrices()) {
    alone.a = alone.b = alone.magnitude = Tensor();
    const std::vector<float> before = base->whole(adapted.config(), adapted.parameter(alone.name + ".weight"));
    std::vector<float> values(before.size());
    computed_merged_weight(alone, adapted.adapter()).read_bytes(std::as_writable_bytes(std::span(values)));
    for (size_t i = 0; i < values.size(); ++i) {
      const double by = static_cast<double>(values[i]) - static_cast<double>(before[i]);
      apart += by * by;
      size += static_cast<double>(before[i]) * static_cast<double>(before[i]);
    }
  }
  return size == 0 ? 0 : std::sqrt(apart / size);
}

class Export {
 public:
  explicit Export(const ExportOptions& options) : options_(options), directory_(options.output, options.overwrite) {
    if (options.adapters.empty()) {
      checkpoint_.emplace(options.checkpoint);
      recipe_ = checkpoint_recipe(*checkpoint_);
    } else {
      adapted_ = load_adapted_model(options.checkpoint, options.adapters, options.combination, DType::kF32);
      recipe_ = adapted_.recipe;
    }
    model_ = LanguageModel::create(recipe_.model, std::nullopt);
  }

  ExportResult run() {
    const std::unique_ptr<Tokenizer> tokenizer =
        tokenizer_of(checkpoint_ ? options_.checkpoint : std::filesystem::path(recipe_.model_from));
    FoundCompanions found = find_companions(options_, recipe_, tokenizer.get());
    if (options_.tokenizer_directory.empty() && checkpoint_)
      if (const std::optional<std::string> chat_template = checkpoint_chat_template(*checkpoint_))
        found.companions.tokenizer_files[std::string(formats::kChatTemplateFileName)] = *chat_template;
    ModelProbe probe(*model_, probe_tokens(recipe_.model, tokenizer.get()));
    std::vector<float> expected;
    if (recipe_.adapter.is_used()) {
      if (checkpoint_) adapted_.model = load_checkpoint_model(*checkpoint_, DType::kF32);
      expected = ModelProbe(*adapted_.model, probe.tokens()).logits();
      merge_adapters(*adapted_.model, *model_);
      if (recipe_.adapter.has_quantized_base()) result_.base_error = base_error(*adapted_.model, recipe_.model_from);
      adapted_.model.reset();
    } else {
      restore_weights(*checkpoint_, *model_);
      expected = probe.logits();
    }
    write_tensors();
    directory_.write(recipe_.model, options_.dtype, found.companions);
    result_.difference = check(probe, expected);
    if (checkpoint_) result_.step = checkpoint_->state().step;
    result_.family = recipe_.model.family;
    result_.base_weights = recipe_.adapter.base;
    result_.parameters = parameter_count(recipe_.model);
    result_.other_entries = other_entries_of(recipe_.model);
    result_.tokenizer = std::move(found.source);
    result_.probe = probe.tokens();
    write_probe(probe.logits());
    directory_.commit();
    return result_;
  }

 private:
  void write_tensors() {
    std::vector<NamedTensorSpec> tensors;
    std::map<std::string, WrittenTensor> by_name;
    for (const Parameter& parameter : model_->parameters())
      for (const WrittenTensor& one : written_tensors(parameter)) {
        tensors.push_back({one.name, options_.dtype, one.shape});
        by_name.emplace(one.name, one);
        result_.bytes += checked_volume(one.shape, size_bytes(options_.dtype)).value();
      }
    const auto source = [&](const std::string& name, const Box& box, std::span<float> values) {
      const WrittenTensor& written = by_name.at(name);
      const uint64_t first = written.first + contiguous_position(whole_box(written.shape), box).value();
      const Tensor& tensor = model_->parameter(written.parameter).tensor;
      tensor.read_bytes_from(first * sizeof(float), std::as_writable_bytes(values));
    };
    write_weights(directory_.directory(), tensors, source, options_.max_file_bytes);
  }

  // Everything by the way that model.from takes.
  ProbeDifference check(ModelProbe& probe, const std::vector<float>& expected) {
    const std::filesystem::path& written = directory_.directory();
    const auto refuse = [&](const std::string& what) {
      throw Error(ErrorKind::kCorrupt, what + ": nothing was exported", options_.checkpoint.string(),
                  "Look after the disk and the machine's memory, and try again; report it if it comes again.");
    };
    if (to_hugging_face(read_hugging_face_config(written)) != to_hugging_face(recipe_.model))
      refuse("the configuration reads back as another one");
    load_weights(*model_, SafetensorsModel(written));
    const ProbeDifference difference = probe_difference(expected, probe.logits());
    const double by_merging = recipe_.adapter.is_used() ? kMostByMerging : 0;
    if (!(difference.relative <= most_relative_difference(options_.dtype) + by_merging))
      refuse(
          fmt::format("the model that was written gives other logits than the checkpoint, by {:.3g} at most and a "
                      "share of {:.3g} of their size",
                      difference.largest, difference.relative));
    return difference;
  }

  void write_probe(const std::vector<float>& logits) const {
    nlohmann::ordered_json json = describe_probe(result_.probe, logits);
    json["device"] = Context::current()->device().name();
    json["dtype"] = dtype_name(options_.dtype);
    json["checkpoint"] = {{"step", result_.step},
                          {"largest_difference", result_.difference.largest},
                          {"relative_difference", result_.difference.relative}};
    // For adapters of the checkpoint, which these weights are the base of as well.
    if (checkpoint_ && options_.dtype == DType::kF32) {
      json[kProbeIdentity] = identity_of_stored_model(directory_.directory());
      json[kProbeIdentityOfCheckpoint] = identity_of_stored_model(options_.checkpoint);
    }
    write_file_atomically(directory_.directory() / kProbeName, json.dump(2) + "\n");
  }

  const ExportOptions& options_;
  ModelDirectory directory_;
  std::optional<CheckpointReader> checkpoint_;  // nothing where adapters are named beside their base
  AdaptedModel adapted_;
  Recipe recipe_;
  std::unique_ptr<LanguageModel> model_;
  ExportResult result_;
};

}  // namespace

// Each weight is off by at most half a unit in its last place, 2^-9 of it in bf16 and 2^-12 in f16, and the errors of
// many weights cancel for the most part: on small trained models logits moved by one to three times that. Many layers
// add to it.
double most_relative_difference(DType dtype) {
  constexpr double kHalfUnits = 32;
  if (dtype == DType::kF32) return 0;
  return kHalfUnits * std::ldexp(1.0, dtype == DType::kBF16 ? -9 : -12);
}

ExportResult export_checkpoint(const ExportOptions& options) {
  const bool has_adapters =
      !options.adapters.empty() || checkpoint_recipe(CheckpointReader(options.checkpoint)).adapter.is_used();
  if (options.merged && !has_adapters)
    throw Error(ErrorKind::kInvalidArgument, "the run has no adapters that could be merged",
                options.checkpoint.string(), "Leave out --merged: its weights are written as they are.");
  return has_adapters && !options.merged ? export_adapter(options) : Export(options).run();
}

}  // namespace causeway::train
