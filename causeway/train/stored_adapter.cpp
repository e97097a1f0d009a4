#include "causeway/train/stored_adapter.h"

#include <algorithm>
#include <set>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/base/hash.h"
#include "causeway/formats/safetensors.h"
#include "causeway/model/peft_adapter.h"
#include "causeway/train/checkpoint/checkpoint_path.h"
#include "causeway/train/checkpoint/run_checkpoint.h"
#include "causeway/train/stored_model.h"

namespace causeway::train {
namespace {

constexpr std::string_view kFirstFactor = ".lora_A.weight";

[[noreturn]] void refuse_missing(const std::string& where, const std::string& name) {
  throw Error(ErrorKind::kInvalidArgument, "is missing from the adapter", fmt::format("{}: {}", where, name),
              "The adapter is of another model.");
}

void require_adapter_shape(const std::vector<int64_t>& found, const std::vector<int64_t>& expected,
                           const std::string& where, const std::string& name) {
  if (found == expected) return;
  throw Error(ErrorKind::kInvalidArgument,
              fmt::format("has shape [{}], but the model's is [{}]", fmt::join(found, ", "), fmt::join(expected, ", ")),
              fmt::format("{}: {}", where, name), "The adapter is of another model.");
}

std::vector<std::string> matrices_of(const std::vector<std::string>& tensors) {
  std::vector<std::string> matrices;
  for (const std::string& name : tensors)
    if (name.ends_with(kFirstFactor)) matrices.push_back(name.substr(0, name.size() - kFirstFactor.size()));
  return matrices;
}

std::vector<float> elements_as_f32(DType dtype, std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / size_bytes(dtype));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(read_element(dtype, bytes.data(), i));
  return values;
}

class PeftDirectory final : public StoredAdapter {
 public:
  explicit PeftDirectory(const std::filesystem::path& directory) : file_(directory / kPeftWeightsName) {
    PeftAdapter found = read_peft_config(directory);
    directory_ = directory;
    config_ = found.adapter;
    config_.base = found.base_weights;
    base_ = std::move(found.base);
    base_identity_ = std::move(found.base_identity);
  }

  std::string identity() const override {
    std::string text;
    for (const std::string& name : file_.names()) {
      const std::span<const std::byte> data = file_.data(name);
      text += fmt::format("{}: {} bytes, {}\n", name, data.size(), hash_bytes(data).hex());
    }
    return hash_text(text).hex();
  }

  void load(LanguageModel& model) const override { load_peft_weights(model, directory_); }

  std::vector<std::string> matrices() const override {
    std::vector<std::string> names;
    for (const std::string& name : file_.names()) names.push_back(name_in_model(name));
    return matrices_of(names);
  }

  std::vector<float> read(const std::string& name, const std::vector<int64_t>& shape) const override {
    const std::string stored = file_.contains(name) ? name : std::string(kPeftPrefix) + name;
    if (!file_.contains(stored)) refuse_missing(file_.path().string(), stored);
    require_adapter_shape(file_.entry(stored).shape, shape, file_.path().string(), stored);
    return elements_as_f32(file_.dtype(stored), file_.data(stored));
  }

 private:
  static std::string name_in_model(const std::string& stored) {
    return stored.starts_with(kPeftPrefix) ? stored.substr(kPeftPrefix.size()) : stored;
  }

  SafetensorsFile file_;
};

class AdapterCheckpoint final : public StoredAdapter {
 public:
  explicit AdapterCheckpoint(const std::filesystem::path& directory) : checkpoint_(directory) {
    const Recipe recipe = checkpoint_recipe(checkpoint_);
    if (!recipe.adapter.is_used())
      throw Error(ErrorKind::kInvalidArgument, "the run trained the model itself, and no adapters", directory.string(),
                  "Name a run that has lora.rank, or the directory of an adapter that PEFT saved.");
    directory_ = directory;
    config_ = recipe.adapter;
    base_ = recipe.model_from;
    base_identity_ = checkpoint_base(checkpoint_);
  }

  std::string identity() const override {
    std::string text;
    for (const std::string& name : tensors())
      for (const CheckpointChunk& chunk : checkpoint_.tensor(name).chunks)
        text += fmt::format("{}: {}\n", name, chunk.hash.hex());
    return hash_text(text).hex();
  }

  void load(LanguageModel& model) const override {
    std::set<std::string> of_model;
    for (const Parameter& parameter : model.parameters()) {
      if (!parameter.is_adapter) continue;
      require(parameter.name, evaluate(parameter.tensor.shape(), {}));
      read_checkpoint_tensor(checkpoint_, parameter.name, parameter.tensor);
      of_model.insert(parameter.name);
    }
    for (const std::string& name : tensors())
      if (!of_model.contains(name) && model.part().is_whole())
        throw Error(ErrorKind::kInvalidArgument, "belongs to a matrix that has no adapter in this model",
                    fmt::format("{}: {}", directory_.string(), name), "The adapter is of another model.");
  }

  std::vector<std::string> matrices() const override { return matrices_of(tensors()); }

  std::vector<float> read(const std::string& name, const std::vector<int64_t>& shape) const override {
    require(name, shape);
    const CheckpointTensor& tensor = checkpoint_.tensor(name);
    std::vector<std::byte> bytes(checked_volume(tensor.shape).value() * size_bytes(tensor.dtype));
    checkpoint_.read(name, bytes);
    return elements_as_f32(tensor.dtype, bytes);
  }

 private:
  // Without the optimizer's state, whose names go on with those of the adapters.
  std::vector<std::string> tensors() const {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : checkpoint_.manifest().tensors) {
      const size_t dot = name.find('.');
      const bool is_state = dot != std::string::npos && checkpoint_.manifest().tensors.contains(name.substr(dot + 1));
      if (!is_state && name.find(".lora_") != std::string::npos) names.push_back(name);
    }
    return names;
  }

  void require(const std::string& name, const std::vector<int64_t>& shape) const {
    if (!checkpoint_.manifest().tensors.contains(name)) refuse_missing(directory_.string(), name);
    require_adapter_shape(checkpoint_.tensor(name).shape, shape, directory_.string(), name);
  }

  CheckpointReader checkpoint_;
};

}  // namespace

std::unique_ptr<StoredAdapter> StoredAdapter::open(const std::filesystem::path& path) {
  std::error_code code;
  if (std::filesystem::exists(path / kPeftConfigName, code)) return std::make_unique<PeftDirectory>(path);
  if (const auto checkpoint = find_checkpoint(path)) return std::make_unique<AdapterCheckpoint>(*checkpoint);
  throw Error(ErrorKind::kNotFound, fmt::format("holds neither {} nor a checkpoint", kPeftConfigName), path.string(),
              "Give a directory that PEFT saved, or a run or checkpoint of this program that trained adapters.");
}

void StoredAdapter::require_base(const StoredModel& base, const std::string& directory) const {
  if (!base_identity_.empty() && !base.is_of(base_identity_))
    refuse_base(fmt::format("the adapters of {}", directory_.string()), base_identity_, directory, base.identity());
}

bool holds_adapter(const std::filesystem::path& path) {
  std::error_code code;
  if (std::filesystem::exists(path / kPeftConfigName, code))
    return std::filesystem::is_regular_file(path / kPeftWeightsName, code);
  try {
    return find_checkpoint(path).has_value();
  } catch (const Error&) {
    return false;
  }
}

}  // namespace causeway::train
