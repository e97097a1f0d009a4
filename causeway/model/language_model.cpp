#include "causeway/model/language_model.h"

#include <algorithm>
#include <cmath>

#include "causeway/base/error.h"
#include "causeway/model/family.h"
#include "causeway/model/initial_values.h"
#include "causeway/program/context.h"
#include "causeway/tensor/ops.h"

namespace causeway::model {
namespace {

// Before anything is allocated: a processor's memory is promised in any amount, and the kernel ends the program when
// it is used.
void require_memory(const ModelConfig& config) {
  const Device& device = Context::current()->device();
  // What a rank holds at least: some parameters may not divide.
  const Mesh& mesh = Context::current()->mesh();
  int64_t pieces = 1;
  for (const MeshAxis& axis : mesh.axes)
    if (axis.name == "fsdp" || axis.name == "tp") pieces *= axis.size;
  const int64_t bytes = parameter_count(config) * static_cast<int64_t>(size_bytes(DType::kF32)) / pieces;
  if (device.memory_limit() == 0 || bytes <= device.memory_limit()) return;
  constexpr double kGibibyte = 1 << 30;
  throw Error(ErrorKind::kResource,
              fmt::format("the weights need {:.1f} GiB, and {} has {:.1f} GiB", static_cast<double>(bytes) / kGibibyte,
                          device.name(), static_cast<double>(device.memory_limit()) / kGibibyte),
              "model", "Choose a smaller model, or a device with more memory.");
}

}  // namespace

std::unique_ptr<LanguageModel> LanguageModel::create(const ModelConfig& config, std::optional<uint64_t> seed) {
  CAUSEWAY_CHECK(config == config.resolved());
  require_memory(config);
  std::optional<InitialValues> values;
  if (seed) values.emplace(*seed);
  return model_family(config.family).build(config, values ? &*values : nullptr);
}

const Parameter& LanguageModel::parameter(const std::string& name) const {
  std::vector<std::string> names;
  for (const Parameter& parameter : parameters_) {
    if (parameter.name == name) return parameter;
    names.push_back(parameter.name);
  }
  const std::string nearest = nearest_name(name, names);
  throw Error(ErrorKind::kNotFound, fmt::format("the {} model has no parameter '{}'", config_.family, name), {},
              nearest.empty() ? "" : fmt::format("Did you mean {}?", nearest));
}

Tensor LanguageModel::declare(const std::string& name, const std::vector<ParameterDim>& dims, Initial initial,
                              InitialValues* values) {
  std::vector<int64_t> shape;
  for (const ParameterDim& dim : dims) shape.push_back(dim.size);
  Tensor tensor = Tensor::uninitialized(shape, DType::kF32, weight_sharding(dims, Context::current()->mesh()));
  if (values != nullptr) {
    const std::span<float> elements = values->buffer(static_cast<size_t>(tensor.local_bytes()) / sizeof(float));
    const double residual = 1 / std::sqrt(2.0 * static_cast<double>(config_.layers));
    if (initial == Initial::kNormal || initial == Initial::kResidualNormal) {
      values->fill_normal(name, config_.initializer_range * (initial == Initial::kNormal ? 1 : residual), shape,
                          {tensor.local_start(), tensor.local_shape()}, elements);
    } else {
      std::fill(elements.begin(), elements.end(), initial == Initial::kOnes ? 1.0f : 0.0f);
    }
    tensor.write_bytes(std::as_bytes(elements));
  }
  parameters_.push_back({name, tensor, shape.size() >= 2});
  return tensor;
}

Tensor LanguageModel::logits(const ForwardInputs& inputs) const {
  const Tensor hidden = hidden_states(inputs);
  const Scope scope("head");
  return linear(hidden, output_weight());
}

Tensor LanguageModel::loss(const ForwardInputs& inputs, const Tensor& targets, const Tensor& token_weights) const {
  const Tensor hidden = hidden_states(inputs);
  const Scope scope("head");
  return linear_cross_entropy(hidden, output_weight(), targets,
                              {.reduction = Reduction::kSum, .token_weights = token_weights});
}

Tensor LanguageModel::drop(const Tensor& x, const ForwardInputs& inputs) const {
  if (config_.dropout == 0 || !inputs.dropout_key.defined()) return x;
  return dropout(x, config_.dropout, inputs.dropout_key);
}

Tensor LanguageModel::residual_stream(const Tensor& x) const {
  const Mesh& mesh = Context::current()->mesh();
  if (mesh.empty()) return x;
  return constrain_sharding(x, stream_sharding(x.shape(), mesh));
}

Tensor LanguageModel::split_heads(const Tensor& x, int64_t heads) const {
  return reshape(x, {x.size(0), x.size(1), heads, config_.head_dim});
}

Tensor LanguageModel::attend(const Tensor& q, const Tensor& k, const Tensor& v, const ForwardInputs& inputs,
                             int64_t window, const Tensor& slopes) const {
  AttentionOptions options;
  options.mask = window > 0 ? sliding_window_mask(window) : causal_mask();
  if (inputs.documents.defined()) options.mask = and_masks({options.mask, document_mask(inputs.documents)});
  if (slopes.defined()) options.score = alibi_score(slopes);
  const Tensor mixed = attention(q, k, v, options);
  return reshape(mixed, {q.size(0), q.size(1), config_.heads * config_.head_dim});
}

}  // namespace causeway::model
