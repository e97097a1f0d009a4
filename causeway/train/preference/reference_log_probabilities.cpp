#include "causeway/train/preference/reference_log_probabilities.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/base/hash.h"
#include "causeway/formats/safetensors.h"
#include "causeway/train/preference/pair_pass.h"
#include "causeway/train/step/preference_objective.h"
#include "causeway/train/stored_adapter.h"
#include "causeway/train/stored_model.h"

namespace causeway::train {
namespace {

constexpr char kTrainingTensor[] = "training", kValidationTensor[] = "validation";
constexpr char kRecipeAndData[] = "recipe_and_data", kWeightsOf[] = "weights";

std::vector<uint64_t> offsets_of_documents(const TokenDataset& dataset) {
  std::vector<uint64_t> offsets;
  for (const TokenDataset::Source& source : dataset.sources())
    dataset.visit_documents(source, [&](uint64_t offset, uint64_t) { offsets.push_back(offset); });
  return offsets;
}

ReferenceLogProbabilities reference_of(const LanguageModel& model, const Recipe& recipe, const TokenDataset& dataset) {
  PairPass pass(model, recipe, dataset, nullptr,
                [](const LanguageModel& policy, const MicroBatch& batch) -> std::vector<Tensor> {
                  return {log_probabilities_of_rows(policy, batch)};
                });
  std::vector<float> values;
  for (size_t source = 0; source < dataset.sources().size(); ++source) {
    const DocumentPairs pairs(dataset, source, recipe.data.sequence_length);
    pass.run(pairs, pairs.samples(), [&](const Batch&, int64_t rows, const std::vector<Tensor>& results) {
      std::vector<float> of_rows(static_cast<size_t>(recipe.train.micro_batch_size));
      results.front().read_bytes(std::as_writable_bytes(std::span(of_rows)));
      values.insert(values.end(), of_rows.begin(), of_rows.begin() + rows);
    });
  }
  return {offsets_of_documents(dataset), std::move(values)};
}

std::string metadata_of(const SafetensorsFile& file, const char* key) {
  const auto found = file.header().metadata.find(key);
  return found == file.header().metadata.end() ? "" : found->second;
}

std::string values_of_file(const SafetensorsFile& file, const char* tensor) {
  if (!file.contains(tensor) || file.dtype(tensor) != DType::kF32) return "";
  const std::span<const std::byte> data = file.data(tensor);
  return {reinterpret_cast<const char*>(data.data()), data.size()};
}

}  // namespace

ReferenceLogProbabilities::ReferenceLogProbabilities(std::vector<uint64_t> offsets, std::vector<float> values)
    : offsets_(std::move(offsets)), values_(std::move(values)) {
  CAUSEWAY_CHECK(offsets_.size() == values_.size(), "{} documents and {} log-probabilities", offsets_.size(),
                 values_.size());
}

std::vector<float> ReferenceLogProbabilities::of_rows(const Batch& batch) const {
  std::vector<float> of_rows;
  for (const uint64_t first : batch.first_tokens) {
    const auto place = std::ranges::lower_bound(offsets_, first);
    const bool is_padding = place == offsets_.end();
    CAUSEWAY_CHECK(is_padding || *place == first, "no document begins at token {}", first);
    of_rows.push_back(is_padding ? 0.0f : values_[static_cast<size_t>(place - offsets_.begin())]);
  }
  return of_rows;
}

RunReference compute_reference(const LanguageModel& model, const Recipe& recipe, const TrainingData& data) {
  RunReference reference{reference_of(model, recipe, data.dataset), std::nullopt};
  if (data.validation) reference.validation.emplace(reference_of(model, recipe, *data.validation));
  return reference;
}

std::string identity_of_recipe_and_data(const Recipe& recipe, const TrainingData& data) {
  std::string text = fmt::format("training {}\n", data.dataset.fingerprint());
  if (data.validation) text += fmt::format("validation {}\n", data.validation->fingerprint());
  for (const RecipeValue& value : recipe_values(recipe)) {
    const bool is_model = value.key.starts_with("model.") || value.key.starts_with("lora.");
    const bool has_other_effect = value.key.ends_with(".from") || value.key.ends_with(".dropout") ||
                                  value.key == "model.initializer_range" || value.key == "model.other_entries";
    if ((is_model && !has_other_effect) || value.key == "train.precision" || value.key == "data.sequence_length")
      text += fmt::format("{} {}\n", value.key, value.value);
  }
  return hash_text(text).hex();
}

std::string identity_of_weights(const Recipe& recipe) {
  std::error_code code;
  if (recipe.model_from.empty() || !std::filesystem::is_directory(recipe.model_from, code)) return "";
  if (!recipe.adapter_from.empty() && !holds_adapter(recipe.adapter_from)) return "";
  std::string weights = identity_of_stored_model(recipe.model_from);
  if (!recipe.adapter_from.empty()) weights += StoredAdapter::open(recipe.adapter_from)->identity();
  return hash_text(weights).hex();
}

void write_reference(const Recipe& recipe, const std::string& of_recipe_and_data, const RunReference& reference) {
  const std::filesystem::path path = std::filesystem::path(recipe.run_directory) / kReferenceFile;
  const std::filesystem::path written = path.string() + ".writing";
  std::vector<std::pair<std::string, const std::vector<float>*>> tensors = {
      {kTrainingTensor, &reference.training.values()}};
  if (reference.validation) tensors.emplace_back(kValidationTensor, &reference.validation->values());
  std::vector<NamedTensorSpec> specs;
  for (const auto& [name, values] : tensors)
    specs.push_back({name, DType::kF32, {static_cast<int64_t>(values->size())}});
  std::error_code code;
  std::filesystem::remove(written, code);
  SafetensorsWriter writer(written, specs, {{kRecipeAndData, of_recipe_and_data}, {kWeightsOf, reference.weights}});
  for (const auto& [name, values] : tensors) writer.write(name, 0, std::as_bytes(std::span(*values)));
  writer.finish();
  std::filesystem::rename(written, path, code);
  if (code)
    throw Error(ErrorKind::kIo, fmt::format("cannot write the reference's log-probabilities: {}", code.message()),
                path.string());
}

std::optional<RunReference> read_reference(const Ranks& ranks, const Recipe& recipe,
                                           const std::string& of_recipe_and_data, const std::string& of_weights,
                                           const TrainingData& data) {
  const std::filesystem::path path = std::filesystem::path(recipe.run_directory) / kReferenceFile;
  const auto read_by_first = [&](const std::function<std::string(const SafetensorsFile&)>& read_part) {
    std::string bytes;
    if (ranks.is_first()) {
      try {
        if (std::error_code code; std::filesystem::is_regular_file(path, code)) {
          const SafetensorsFile file(path);
          const bool same_weights = of_weights.empty() || metadata_of(file, kWeightsOf) == of_weights;
          if (same_weights && metadata_of(file, kRecipeAndData) == of_recipe_and_data) bytes = read_part(file);
        }
      } catch (const Error&) {
        bytes.clear();  // what cannot be read is computed again
      }
    }
    return ranks.of_first(bytes);
  };
  const auto read = [&](const char* tensor, const TokenDataset& dataset) -> std::optional<ReferenceLogProbabilities> {
    const std::string bytes = read_by_first([&](const SafetensorsFile& file) { return values_of_file(file, tensor); });
    std::vector<uint64_t> offsets = offsets_of_documents(dataset);
    if (bytes.size() != offsets.size() * sizeof(float)) return std::nullopt;
    std::vector<float> values(offsets.size());
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return ReferenceLogProbabilities(std::move(offsets), std::move(values));
  };
  std::optional<ReferenceLogProbabilities> training = read(kTrainingTensor, data.dataset);
  if (!training) return std::nullopt;
  RunReference reference{std::move(*training), std::nullopt};
  reference.weights = read_by_first([](const SafetensorsFile& file) { return metadata_of(file, kWeightsOf); });
  if (!data.validation) return reference;
  reference.validation = read(kValidationTensor, *data.validation);
  if (!reference.validation) return std::nullopt;
  return reference;
}

}  // namespace causeway::train
