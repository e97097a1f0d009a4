#include "causeway/train/stored_model.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/base/hash.h"
#include "causeway/base/json_document.h"
#include "causeway/base/thread_pool.h"
#include "causeway/device/offline/offline_device.h"
#include "causeway/formats/safetensors.h"
#include "causeway/model/hugging_face.h"
#include "causeway/model/quantized_weight.h"
#include "causeway/program/context.h"
#include "causeway/train/checkpoint/checkpoint_path.h"
#include "causeway/train/checkpoint/run_checkpoint.h"
#include "causeway/train/hugging_face/model_directory.h"

namespace causeway::train {
namespace {

// A line for each tensor, with a hash of its first, middle and last bytes: of two models that were trained at all those
// differ, and weights of many gigabytes need not be read by every rank.
class HuggingFaceModel final : public StoredModel {
 public:
  explicit HuggingFaceModel(const std::filesystem::path& directory) : directory_(directory), weights_(directory) {}

  bool is_of(const std::string& identity) const override {
    const std::string own = this->identity();
    if (identity == own) return true;
    std::error_code code;
    const std::filesystem::path probe = directory_ / kProbeName;
    if (!std::filesystem::is_regular_file(probe, code)) return false;
    const nlohmann::json said = read_json_file(probe, {.name = "the probe of the export"});
    const auto says = [&](const char* key, const std::string& text) {
      return said.is_object() && said.contains(key) && said[key] == text;
    };
    return says(kProbeIdentity, own) && says(kProbeIdentityOfCheckpoint, identity);
  }

  std::string description() const override {
    constexpr size_t kSample = 4096;
    std::string text;
    for (const std::string& name : weights_.names()) {
      const std::span<const std::byte> data = weights_.data(name);
      std::vector<std::byte> sample;
      for (const size_t begin : {size_t{0}, data.size() / 2, data.size() - std::min(kSample, data.size())}) {
        const auto piece = data.subspan(begin, std::min(kSample, data.size() - begin));
        sample.insert(sample.end(), piece.begin(), piece.end());
      }
      text += fmt::format("{}: {} bytes, {}\n", name, data.size(), hash_bytes(sample).hex());
    }
    return text;
  }

  std::vector<std::string> load(LanguageModel& model, std::string_view without) const override {
    std::vector<std::string> read;
    for (const StoredWeight& weight : load_parameters(model, weights_, without))
      for (std::string& name : weight.stored_names()) read.push_back(std::move(name));
    return read;
  }

  void require_no_other_tensors(const ModelConfig& config, const std::vector<std::string>& read) const override {
    model::require_no_other_tensors(config, weights_, read);
  }

  std::string load_parameter(const ModelConfig& config, const Parameter& parameter) const override {
    const StoredWeight weight = find_weight(config, parameter, weights_);
    load_weight(parameter, weight, weights_, pool_);
    return weight.stored_name;
  }

  std::vector<float> whole(const ModelConfig& config, const Parameter& parameter) const override {
    const StoredWeight weight = find_weight(config, parameter, weights_);
    std::vector<float> values(checked_volume(weight.shape).value());
    read_weight(weights_, weight, 0, values);
    return values;
  }

 private:
  std::filesystem::path directory_;
  SafetensorsModel weights_;
  mutable std::optional<ThreadPool> pool_;  // that quantizes one parameter after another
};

// By names and hashes of the manifest, which are those of all bytes: of one tensor.
std::string line_of(const CheckpointReader& checkpoint, const std::string& name) {
  const CheckpointTensor& tensor = checkpoint.tensor(name);
  std::string line = fmt::format("{}: {} [{}]", name, dtype_name(tensor.dtype), fmt::join(tensor.shape, ", "));
  for (const CheckpointChunk& chunk : tensor.chunks) line += " " + chunk.hash.hex();
  return line + "\n";
}

class CheckpointModel final : public StoredModel {
 public:
  explicit CheckpointModel(const std::filesystem::path& directory)
      : checkpoint_(directory), recipe_(checkpoint_recipe(checkpoint_)) {
    if (recipe_.adapter.is_used()) base_ = open_base(recipe_.model_from, checkpoint_base(checkpoint_));
    if (!recipe_.adapter.has_quantized_base()) return;
    const OfflineModel own(recipe_);
    for (const Parameter& parameter : own.model->parameters())
      if (parameter.quantized) quantized_.insert(parameter.name);
  }

  std::string description() const override {
    std::string text;
    if (base_ != nullptr) text = fmt::format("base {}\n", base_->identity());
    if (recipe_.adapter.has_quantized_base()) text += fmt::format("base in {}\n", name_of(recipe_.adapter.base));
    // Which tensors are weights, and no state of an optimizer, is the model's to say.
    const OfflineModel own(recipe_);
    for (const Parameter& parameter : own.model->parameters())
      if (base_ == nullptr || parameter.is_adapter) text += line_of(checkpoint_, parameter.name);
    return text;
  }

  std::vector<std::string> load(LanguageModel& model, std::string_view without) const override {
    // What begins a score is the checkpoint's model but for that; dropout is a run's own.
    ModelConfig config = model.config();
    if (without == kScoreWeight) config = config.with_score_head(false);
    config.dropout = recipe_.model.dropout;
    checkpoint_.require_model(to_hugging_face(config.without_other_entries()));
    std::vector<std::string> read;
    for (const Parameter& parameter : model.parameters())
      if (parameter.is_stored() && parameter.name != without) read.push_back(load_parameter(config, parameter));
    code_values_ = Tensor();
    alone_.reset();
    pool_.reset();
    return read;
  }

  // A checkpoint says itself what its tensors are.
  void require_no_other_tensors(const ModelConfig&, const std::vector<std::string>&) const override {}

  std::string load_parameter(const ModelConfig& config, const Parameter& parameter) const override {
    if (base_ != nullptr && !is_changed(parameter)) {
      base_->load_parameter(config, parameter);
    } else if (base_ == nullptr && !parameter.quantized) {
      require_shape(parameter);
      read_checkpoint_tensor(checkpoint_, parameter.name, parameter.tensor);
    } else {
      load_values(parameter, whole(config, parameter), pool_);
    }
    return parameter.name;
  }

  std::vector<float> whole(const ModelConfig& config, const Parameter& parameter) const override {
    if (base_ != nullptr) return is_changed(parameter) ? merged(config, parameter) : base_->whole(config, parameter);
    require_shape(parameter);
    return read(parameter.name);
  }

 private:
  // Of that run, with nothing computed: for the names of its parameters.
  struct OfflineModel {
    explicit OfflineModel(const Recipe& recipe)
        : scope(std::make_shared<Context>(std::make_shared<OfflineDevice>(Target()))),
          model(LanguageModel::create(recipe.model, ModelPart(recipe.model.layers),
                                      NewWeights{.adapter = recipe.adapter})) {}
    ContextScope scope;
    std::unique_ptr<LanguageModel> model;
  };

  // "NAME.weight" of a matrix with an adapter.
  static std::string part_of(const Parameter& parameter, const char* end) {
    constexpr std::string_view kWeight = ".weight";
    return parameter.name.ends_with(kWeight) ? parameter.name.substr(0, parameter.name.size() - kWeight.size()) + end
                                             : std::string();
  }

  bool holds(const std::string& name) const { return checkpoint_.manifest().tensors.contains(name); }
  // Whether it is another than the base's: it has an adapter, or was quantized.
  bool is_changed(const Parameter& parameter) const {
    return quantized_.contains(parameter.name) || holds(part_of(parameter, ".lora_A.weight"));
  }

  void require_shape(const Parameter& parameter) const {
    const std::vector<int64_t>& stored = checkpoint_.tensor(parameter.name).shape;
    const std::vector<int64_t> expected = parameter.stored_shape();
    if (stored != expected)
      throw Error(
          ErrorKind::kInvalidArgument,
          fmt::format("has shape [{}], but the model's is [{}]", fmt::join(stored, ", "), fmt::join(expected, ", ")),
          parameter.name, "Name the checkpoint of a model of the same sizes.");
  }

  std::vector<float> read(const std::string& name) const {
    const CheckpointTensor& tensor = checkpoint_.tensor(name);
    const size_t count = checked_volume(tensor.shape).value();
    std::vector<std::byte> bytes(count * size_bytes(tensor.dtype));
    checkpoint_.read(name, bytes);
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(read_element(tensor.dtype, bytes.data(), i));
    return values;
  }

  // Of the base's values, as this run quantized them. In the current context.
  std::shared_ptr<QuantizedWeight> quantized(const Parameter& parameter, const std::vector<float>& weight) const {
    const std::vector<int64_t> shape = parameter.stored_shape();
    const size_t out = parameter.input_first ? 1 : 0;
    if (recipe_.adapter.base == BaseWeights::kNf4 && !code_values_.defined()) code_values_ = make_code_values();
    auto made = std::make_shared<QuantizedWeight>(part_of(parameter, ""), recipe_.adapter.base,
                                                  ParameterDim{.size = shape[out]},
                                                  ParameterDim{.size = shape[1 - out]}, DType::kF32, code_values_);
    if (!pool_) pool_.emplace();
    made->write(parameter.input_first ? transposed(weight, shape[0], shape[1]) : weight, *pool_);
    return made;
  }

  // The sum of a whole matrix, on this rank's device: sums of parts could round in another way.
  std::vector<float> merged(const ModelConfig& config, const Parameter& parameter) const {
    if (alone_ == nullptr) alone_ = std::make_shared<Context>(Context::current()->shared_device());
    const std::vector<float> weight = base_->whole(config, parameter);
    const ContextScope scope(alone_);
    const auto tensor = [](std::span<const float> values, const std::vector<int64_t>& shape) {
      Tensor made = Tensor::uninitialized(shape, DType::kF32);
      made.write_bytes(std::as_bytes(values));
      return made;
    };
    const auto part = [&](const char* end) {
      const std::string name = part_of(parameter, end);
      return holds(name) ? tensor(read(name), checkpoint_.tensor(name).shape) : Tensor();
    };
    Matrix matrix{.name = part_of(parameter, ""),
                  .weight = {},
                  .input_first = parameter.input_first,
                  .a = part(".lora_A.weight"),
                  .b = part(".lora_B.weight"),
                  .magnitude = part(".lora_magnitude_vector")};
    if (quantized_.contains(parameter.name))
      matrix.quantized = quantized(parameter, weight);
    else
      matrix.weight = tensor(weight, parameter.stored_shape());
    std::vector<float> sum(weight.size());
    computed_merged_weight(matrix, recipe_.adapter).read_bytes(std::as_writable_bytes(std::span(sum)));
    return sum;
  }

  CheckpointReader checkpoint_;
  Recipe recipe_;
  std::unique_ptr<StoredModel> base_;  // of adapters
  std::set<std::string> quantized_;    // its matrices, where they were so
  // For merged() and what is quantized, while a model is loaded.
  mutable std::shared_ptr<Context> alone_;
  mutable Tensor code_values_;  // of that context
  mutable std::optional<ThreadPool> pool_;
};

}  // namespace

std::unique_ptr<StoredModel> StoredModel::open(const std::filesystem::path& directory) {
  if (is_checkpoint(directory)) return std::make_unique<CheckpointModel>(directory);
  return std::make_unique<HuggingFaceModel>(directory);
}

std::string StoredModel::identity() const { return hash_text(description()).hex(); }

std::string identity_of_stored_model(const std::filesystem::path& directory) {
  return StoredModel::open(directory)->identity();
}

void refuse_base(const std::string& what, const std::string& was, const std::string& directory, const std::string& is) {
  throw Error(ErrorKind::kInvalidArgument,
              fmt::format("{} were trained on another base model ({}) than that of {} ({})", what, was, directory, is),
              "model.from", "Name the directory of the model that they were trained on.");
}

std::unique_ptr<StoredModel> open_base(const std::string& directory, const std::string& identity) {
  std::error_code code;
  if (!std::filesystem::is_directory(directory, code))
    throw Error(ErrorKind::kNotFound, fmt::format("the base model of the adapters is not in {} any more", directory),
                "model.from", "Checkpoints of such a run hold the adapters alone: put the model back where it was.");
  std::unique_ptr<StoredModel> base = StoredModel::open(directory);
  const std::string found = base->identity();
  if (!identity.empty() && !base->is_of(identity)) refuse_base("the adapters", identity, directory, found);
  return base;
}

}  // namespace causeway::train
