#include "causeway/train/preference/reference_log_probabilities.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/base/hash.h"
#include "causeway/formats/safetensors.h"
#include "causeway/train/initial_weights.h"
#include "causeway/train/preference/pair_pass.h"
#include "causeway/train/step/preference_objective.h"

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

std::string bytes_of_file(const std::filesystem::path& path, const ReferenceIdentity& identity, const char* tensor) {
  const SafetensorsFile file(path);
  const std::map<std::string, std::string>& metadata = file.header().metadata;
  const auto is = [&](const char* key, const std::string& value) {
    const auto found = metadata.find(key);
    return found != metadata.end() && found->second == value;
  };
  const bool same_weights = identity.of_weights.empty() || is(kWeightsOf, identity.of_weights);
  if (!is(kRecipeAndData, identity.of_recipe_and_data) || !same_weights || !file.contains(tensor)) return "";
  if (file.dtype(tensor) != DType::kF32) return "";
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

ReferenceIdentity reference_identity(const Recipe& recipe, const TrainingData& data) {
  std::string text = fmt::format("training {}\n", data.dataset.fingerprint());
  if (data.validation) text += fmt::format("validation {}\n", data.validation->fingerprint());
  for (const RecipeValue& value : recipe_values(recipe)) {
    const bool is_model = value.key.starts_with("model.") || value.key.starts_with("lora.");
    const bool has_other_effect = value.key.ends_with(".from") || value.key.ends_with(".dropout") ||
                                  value.key == "model.initializer_range" || value.key == "model.other_entries";
    if ((is_model && !has_other_effect) || value.key == "train.precision" || value.key == "data.sequence_length")
      text += fmt::format("{} {}\n", value.key, value.value);
  }
  ReferenceIdentity identity{.of_recipe_and_data = hash_text(text).hex(), .of_weights = {}};
  std::error_code code;
  if (recipe.model_from.empty() || !std::filesystem::is_directory(recipe.model_from, code)) return identity;
  std::string weights = base_identity(SafetensorsModel(recipe.model_from));
  const std::filesystem::path adapter = std::filesystem::path(recipe.adapter_from) / "adapter_model.safetensors";
  if (!recipe.adapter_from.empty() && std::filesystem::is_regular_file(adapter, code))
    weights += base_identity(SafetensorsModel(adapter));
  identity.of_weights = hash_text(weights).hex();
  return identity;
}

void write_reference(const Recipe& recipe, const ReferenceIdentity& identity, const RunReference& reference) {
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
  SafetensorsWriter writer(written, specs,
                           {{kRecipeAndData, identity.of_recipe_and_data}, {kWeightsOf, identity.of_weights}});
  for (const auto& [name, values] : tensors) writer.write(name, 0, std::as_bytes(std::span(*values)));
  writer.finish();
  std::filesystem::rename(written, path, code);
  if (code)
    throw Error(ErrorKind::kIo, fmt::format("cannot write the reference's log-probabilities: {}", code.message()),
                path.string());
}

std::optional<RunReference> read_reference(const Ranks& ranks, const Recipe& recipe, const ReferenceIdentity& identity,
                                           const TrainingData& data) {
  const std::filesystem::path path = std::filesystem::path(recipe.run_directory) / kReferenceFile;
  const auto read = [&](const char* tensor, const TokenDataset& dataset) -> std::optional<ReferenceLogProbabilities> {
    std::string bytes;
    if (ranks.is_first()) {
      try {
        if (std::error_code code; std::filesystem::is_regular_file(path, code))
          bytes = bytes_of_file(path, identity, tensor);
      } catch (const Error&) {
        bytes.clear();  // what cannot be read is computed again
      }
    }
    bytes = ranks.of_first(bytes);
    std::vector<uint64_t> offsets = offsets_of_documents(dataset);
    if (bytes.size() != offsets.size() * sizeof(float)) return std::nullopt;
    std::vector<float> values(offsets.size());
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return ReferenceLogProbabilities(std::move(offsets), std::move(values));
  };
  std::optional<ReferenceLogProbabilities> training = read(kTrainingTensor, data.dataset);
  if (!training) return std::nullopt;
  RunReference reference{std::move(*training), std::nullopt};
  if (!data.validation) return reference;
  reference.validation = read(kValidationTensor, *data.validation);
  if (!reference.validation) return std::nullopt;
  return reference;
}

}  // namespace causeway::train
