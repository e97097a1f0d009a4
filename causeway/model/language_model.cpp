#include "causeway/model/language_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "causeway/base/byte_size.h"
#include "causeway/base/error.h"
#include "causeway/base/hash.h"
#include "causeway/model/family.h"
#include "causeway/model/key_value_cache.h"
#include "causeway/model/parameter_sharding.h"
#include "causeway/model/quantized_weight.h"
#include "causeway/program/context.h"
#include "causeway/tensor/normal_values.h"
#include "causeway/tensor/ops.h"
#include "causeway/tensor/stage_ops.h"

namespace causeway::model {
namespace {

// What this rank holds of a tensor, rounded to its type.
void write_rounded(Tensor& tensor, std::span<const float> values) {
  if (tensor.dtype() == DType::kF32) return tensor.write_bytes(std::as_bytes(values));
  std::vector<std::byte> bytes(values.size() * size_bytes(tensor.dtype()));
  for (size_t i = 0; i < values.size(); ++i) write_element(tensor.dtype(), bytes.data(), i, values[i]);
  tensor.write_bytes(bytes);
}

void fill_with(Tensor& tensor, float value) {
  write_rounded(tensor,
                std::vector<float>(static_cast<size_t>(tensor.local_bytes()) / size_bytes(tensor.dtype()), value));
}

void fill_with_normal(Tensor& tensor, const NormalValues& values) {
  if (tensor.dtype() == DType::kF32) return fill_normal(tensor, values);
  Tensor wide = Tensor::uninitialized(evaluate(tensor.shape(), {}), DType::kF32, tensor.sharding());
  fill_normal(wide, values);
  std::vector<float> made(static_cast<size_t>(wide.local_bytes()) / sizeof(float));
  wide.read_bytes(std::as_writable_bytes(std::span(made)));
  write_rounded(tensor, made);
}

// What is frozen takes the fewest bytes.
int64_t least_bytes(const ModelConfig& config, const NewWeights& weights) {
  const int64_t elements = parameter_count(config);
  const auto trained = static_cast<int64_t>(size_bytes(weights.trained_type));
  if (!weights.is_trained) return elements * trained;
  return std::min(elements * trained, least_bytes_of_base(weights.adapter, elements, weights.frozen_type));
}

// Before anything is allocated: a processor's memory is promised in any amount, and the kernel ends the program when
// it is used.
void require_memory(const ModelConfig& config, const ModelPart& part, const NewWeights& weights) {
  const Device& device = Context::current()->device();
  // What a rank holds at least: some parameters may not divide.
  const double share = held_share(Context::current()->mesh()) / static_cast<double>(part.stages());
  const auto bytes = static_cast<int64_t>(static_cast<double>(least_bytes(config, weights)) * share);
  if (device.memory_limit() == 0 || bytes <= device.memory_limit()) return;
  throw Error(ErrorKind::kResource,
              fmt::format("the weights need {}, and {} has {}", format_bytes(bytes), device.name(),
                          format_bytes(device.memory_limit())),
              "model", "Choose a smaller model, or a device with more memory.");
}

}  // namespace

std::unique_ptr<LanguageModel> LanguageModel::create(const ModelConfig& config, std::optional<uint64_t> seed,
                                                     WeightStorage storage) {
  return create(config, ModelPart(config.layers), seed, storage);
}

std::unique_ptr<LanguageModel> LanguageModel::create(const ModelConfig& config, const ModelPart& part,
                                                     std::optional<uint64_t> seed, WeightStorage storage) {
  return create(config, part, NewWeights{.seed = seed, .storage = storage});
}

std::unique_ptr<LanguageModel> LanguageModel::create(const ModelConfig& config, const ModelPart& part,
                                                     const NewWeights& weights) {
  CAUSEWAY_CHECK(config == config.resolved());
  require_memory(config, part, weights);
  std::unique_ptr<LanguageModel> model = model_family(config.family).build(config, part, weights);
  model->adapter_ = weights.adapter;
  if (config.score_head) model->declare_score(weights);
  return model;
}

std::vector<int64_t> Parameter::stored_shape() const {
  if (!quantized) return evaluate(tensor.shape(), {});
  return input_first ? std::vector{quantized->inputs(), quantized->outputs()}
                     : std::vector{quantized->outputs(), quantized->inputs()};
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

bool LanguageModel::begin_layer(int64_t layer) {
  int64_t piece = 0;
  while (part_.first_layer(piece + 1) <= layer) ++piece;
  declared_piece_ = piece;
  return part_.holds_piece(piece);
}

bool LanguageModel::begin_head() {
  declared_piece_ = part_.pieces() - 1;
  return part_.holds_head();
}

void LanguageModel::initialize(Tensor& tensor, const std::string& name, Initial initial, uint64_t seed) const {
  const double residual = 1 / std::sqrt(2.0 * static_cast<double>(config_.layers));
  if (initial == Initial::kOnes || initial == Initial::kZeros)
    return fill_with(tensor, initial == Initial::kOnes ? 1.0f : 0.0f);
  fill_with_normal(tensor,
                   {.seed = seed,
                    .stream = hash_text(name).low,
                    .standard_deviation = config_.initializer_range * (initial == Initial::kNormal ? 1 : residual)});
}

Parameter& LanguageModel::add_parameter(const std::string& name, const Tensor& tensor) {
  Parameter parameter{name, tensor, tensor.rank() >= 2};
  parameter.is_copy = !declared_piece_ && !part_.holds_embedding();
  parameter.piece = declared_piece_.value_or(parameter.is_copy ? part_.pieces() - 1 : 0);
  return parameters_.emplace_back(std::move(parameter));
}

Tensor LanguageModel::declare(const std::string& name, const std::vector<ParameterDim>& dims, Initial initial,
                              const NewWeights& weights) {
  std::vector<int64_t> shape;
  for (const ParameterDim& dim : dims) shape.push_back(dim.size);
  const Sharding lies = weight_sharding(dims, Context::current()->mesh());
  const bool only_multiplied =
      shape.size() >= 2 && declared_piece_.has_value();  // embeddings are declared before layers
  const bool is_trained = !weights.is_trained || weights.is_trained(name);
  const DType type = shape.size() < 2 ? DType::kF32 : is_trained ? weights.trained_type : weights.frozen_type;
  // Grouped GEMMs read whole elements.
  const bool may_be_halves = only_multiplied && is_trained && type == DType::kF32 && shape.size() == 2;
  Tensor tensor = may_be_halves && weights.storage == WeightStorage::kHalves ? Tensor::uninitialized_halves(shape, lies)
                                                                             : Tensor::uninitialized(shape, type, lies);
  if (weights.seed) initialize(tensor, name, initial, *weights.seed);
  Parameter& parameter = add_parameter(name, tensor);
  parameter.is_trained = is_trained;
  parameter.only_multiplied = only_multiplied;
  // The rows of an untied embedding are of kLookup.
  parameter.is_shared = !declared_piece_ && !part_.is_whole() && dims[0].logical == LogicalDim::kVocabulary;
  return tensor;
}

Tensor LanguageModel::declare_experts_matrix(const std::string& name, ExpertMatrix which,
                                             const std::vector<ParameterDim>& dims, Initial initial,
                                             const NewWeights& weights) {
  const Tensor tensor = declare(name, dims, initial, weights);
  parameters_.back().of_experts = which;
  return tensor;
}

void LanguageModel::declare_quantized(Matrix& matrix, ParameterDim out, ParameterDim in, Initial initial,
                                      const NewWeights& weights) {
  if (weights.adapter.base == BaseWeights::kNf4 && !code_values_.defined()) code_values_ = make_code_values();
  matrix.quantized =
      std::make_shared<QuantizedWeight>(matrix.name, weights.adapter.base, out, in, weights.frozen_type, code_values_);
  const std::string name = matrix.name + ".weight";
  for (const QuantizedPart& part : matrix.quantized->parts()) {
    Parameter& parameter = add_parameter(part.name.empty() ? name : name + "." + part.name, part.tensor);
    parameter.is_trained = false;
    parameter.is_scale = !part.name.empty();
    if (parameter.is_scale) continue;
    parameter.only_multiplied = true;
    parameter.input_first = matrix.input_first;
    parameter.quantized = matrix.quantized;
  }
  if (!weights.seed) return;
  const std::vector<int64_t> shape = parameter(name).stored_shape();
  Tensor made = Tensor::uninitialized(shape, DType::kF32);
  initialize(made, name, initial, *weights.seed);
  std::vector<float> values(static_cast<size_t>(made.local_bytes()) / sizeof(float));
  made.read_bytes(std::as_writable_bytes(std::span(values)));
  if (matrix.input_first) values = transposed(values, shape[0], shape[1]);
  ThreadPool pool;
  matrix.quantized->write(values, pool);
}

// Read by a reduction, and so whole elements; its rows and columns are cut by no axis.
void LanguageModel::declare_score(const NewWeights& weights) {
  CAUSEWAY_CHECK(part_.is_whole());
  declared_piece_.reset();
  score_ =
      declare(kScoreWeight, {{1, LogicalDim::kHead}, {config_.width, LogicalDim::kWidth}}, Initial::kNormal, weights);
}

void LanguageModel::initialize_score(uint64_t seed) {
  CAUSEWAY_CHECK(score_.defined());
  fill_with_normal(
      score_, {.seed = seed, .stream = hash_text(kScoreWeight).low, .standard_deviation = config_.initializer_range});
}

Matrix LanguageModel::declare_matrix(const std::string& name, ParameterDim out, ParameterDim in, Initial initial,
                                     const NewWeights& weights, MatrixLayout layout) {
  Matrix matrix{.name = name, .weight = {}, .input_first = layout == MatrixLayout::kInputFirst};
  const AdapterConfig& adapter = weights.adapter;
  if (adapter.has_quantized_base()) {
    declare_quantized(matrix, out, in, initial, weights);
  } else {
    const std::vector<ParameterDim> dims = matrix.input_first ? std::vector{in, out} : std::vector{out, in};
    matrix.weight = declare(name + ".weight", dims, initial, weights);
    parameters_.back().input_first = matrix.input_first;
  }
  const std::vector<std::string> patterns = target_patterns(adapter.targets);
  if (adapter.is_used() && std::ranges::any_of(patterns, [&](const auto& one) { return matches_target(one, name); })) {
    const ParameterDim rank{adapter.rank, LogicalDim::kRank};
    const NewWeights of_adapter{.storage = weights.storage, .trained_type = weights.trained_type};
    const auto part = [&](const char* end, const std::vector<ParameterDim>& shape) {
      const Tensor tensor = declare(name + end, shape, Initial::kZeros, of_adapter);
      parameters_.back().is_adapter = true;
      return tensor;
    };
    matrix.a = part(".lora_A.weight", {rank, in});
    matrix.b = part(".lora_B.weight", {out, rank});
    if (adapter.kind == AdapterKind::kDora) matrix.magnitude = part(".lora_magnitude_vector", {out});
  }
  matrices_.push_back(matrix);
  return matrix;
}

Tensor LanguageModel::multiply(const Tensor& x, const Matrix& matrix, const ForwardInputs& inputs) const {
  if (!inputs.without_adapters) return model::multiply(x, matrix, adapter_, inputs.dropout_key);
  Matrix base = matrix;
  base.a = base.b = base.magnitude = Tensor();
  return model::multiply(x, base, {}, {});
}

// Dropout draws from streams that are a layer's own, so that masks do not depend on what else is traced with it.
Tensor LanguageModel::run_piece(int64_t piece, const Tensor& stream, const ForwardInputs& given) const {
  constexpr int64_t kStreamsOfLayer = 64;
  ForwardInputs inputs = given;
  if (!inputs.order.is_plain()) {
    CAUSEWAY_CHECK(!inputs.positions.defined() && inputs.cache == nullptr);
    inputs.positions = inputs.order.position(index_tensor(DType::kI32, {inputs.tokens.size(1)}, 0));
  }
  Tensor x = stream;
  if (piece == 0) {
    const RandomStreams streams(0);
    const Scope scope("embedding");
    x = residual_stream(embed(inputs));
  }
  for (int64_t layer = part_.first_layer(piece); layer < part_.first_layer(piece + 1); ++layer) {
    const RandomStreams streams((layer + 1) * kStreamsOfLayer);
    const Scope scope(fmt::format("layers.{}", layer));
    inputs.layer = layer;
    x = run_layer(layer, x, inputs);
  }
  return x;
}

// After the last piece; undefined where another stage has it.
Tensor LanguageModel::last_stream(const ForwardInputs& inputs) const {
  if (part_.is_whole()) return run_piece(0, {}, inputs);
  const Shape shape = {inputs.tokens.size(0), inputs.tokens.size(1), Dim(config_.width)};
  const Sharding sharding = stream_sharding(shape, Context::current()->mesh());
  const auto name = [](int64_t piece) { return fmt::format("stream before piece {}", piece); };
  Tensor last;
  for (const int64_t piece : part_.held()) {
    Tensor x;
    if (piece > 0) x = receive_from_stage({DType::kF32, shape}, part_.stage_of(piece - 1), 0, sharding, name(piece));
    x = run_piece(piece, x, inputs);
    if (piece + 1 == part_.pieces()) {
      last = x;
    } else {
      send_to_stage(x, part_.stage_of(piece + 1), 0, sharding, name(piece + 1));
    }
  }
  return last;
}

Tensor LanguageModel::hidden_states(const ForwardInputs& inputs) const {
  Tensor stream = last_stream(inputs);
  if (!stream.defined()) return stream;
  const Scope scope("head");
  return last_norm(stream);
}

Tensor LanguageModel::logits(const ForwardInputs& inputs) const {
  CAUSEWAY_CHECK(part_.is_whole());
  const Tensor hidden = hidden_states(inputs);
  const Scope scope("head");
  return logits_of(hidden);
}

Tensor LanguageModel::logits_of(const Tensor& hidden) const {
  if (score_.defined()) return linear(hidden, score_);
  const Tensor logits = linear(hidden, output_weight());
  return logit_softcap() > 0 ? softcap(logits, logit_softcap()) : logits;
}

// In f32 whatever GEMMs compute in.
Tensor LanguageModel::scores(const ForwardInputs& inputs) const {
  CAUSEWAY_CHECK(part_.is_whole() && score_.defined());
  const Tensor hidden = hidden_states(inputs);
  const Scope scope("head");
  return sum(hidden * cast(reshape(score_, {Dim(config_.width)}), DType::kF32), {-1});
}

Tensor LanguageModel::next_logits(const ForwardInputs& inputs) const {
  const Tensor hidden = hidden_states(inputs);
  const Scope scope("head");
  Tensor logits = constant_tensor(DType::kF32, {Dim(config_.vocabulary_size)}, 0);
  if (hidden.defined()) {
    const Dim length = hidden.size(1);
    const Tensor last = slice(slice(hidden, 0, 0, 1), 1, length - Dim(1), length);
    const Tensor row = reshape(last, {Dim(1), Dim(config_.width)});
    logits = reshape(logits_of(row), {Dim(config_.vocabulary_size)});
  }
  return sum_over_stages(logits);
}

Tensor LanguageModel::logits_after(const ForwardInputs& inputs, const Tensor& last) const {
  CAUSEWAY_CHECK(part_.is_whole());
  const Tensor hidden = hidden_states(inputs);
  const Scope scope("head");
  const Dim &sequences = hidden.size(0), &length = hidden.size(1);
  const Tensor first = index_tensor(DType::kI32, {sequences}, 0) * dimension_scalar(length, DType::kI32);
  const Tensor rows = index_select(reshape(hidden, {sequences * length, Dim(config_.width)}), 0, first + last);
  return logits_of(rows);
}

Tensor LanguageModel::loss(const ForwardInputs& inputs, const Tensor& targets, const Tensor& token_weights) const {
  const Tensor stream = last_stream(inputs);
  return sum_over_stages(stream.defined() ? loss_of_stream(stream, targets, token_weights, 0).loss
                                          : constant_tensor(DType::kF32, {}, 0));
}

Tensor LanguageModel::token_losses(const ForwardInputs& inputs, const Tensor& targets, double temperature) const {
  CAUSEWAY_CHECK(part_.is_whole());
  const Tensor stream = last_stream(inputs);
  const Scope scope("head");
  Tensor hidden = last_norm(stream);
  if (temperature != 1 && logit_softcap() > 0)
    return cross_entropy(sampling_logits(hidden, temperature), where(ge(targets, 0.0), targets, -1),
                         {.ignore_index = -1, .reduction = Reduction::kNone});
  if (temperature != 1) hidden = hidden * (1 / temperature);
  return linear_cross_entropy(hidden, output_weight(), targets,
                              {.reduction = Reduction::kNone, .softcap = logit_softcap()});
}

// In the order of token_losses().
Tensor LanguageModel::sampling_logits(const Tensor& hidden, double temperature) const {
  if (temperature == 1) return logits_of(hidden);
  return logit_softcap() > 0 ? logits_of(hidden) * (1 / temperature) : logits_of(hidden * (1 / temperature));
}

LossAndZLoss LanguageModel::loss_and_z_loss(const ForwardInputs& inputs, const Tensor& targets,
                                            const Tensor& token_weights, double coefficient) const {
  CAUSEWAY_CHECK(part_.is_whole());
  return loss_of_stream(last_stream(inputs), targets, token_weights, coefficient);
}

LossAndZLoss LanguageModel::loss_of_stream(const Tensor& stream, const Tensor& targets, const Tensor& token_weights,
                                           double coefficient) const {
  const Scope scope("head");
  const LinearCrossEntropyOptions options = {
      .reduction = Reduction::kSum, .token_weights = token_weights, .softcap = logit_softcap()};
  const Tensor hidden = last_norm(stream);
  if (coefficient == 0) return {linear_cross_entropy(hidden, output_weight(), targets, options), {}};
  return linear_cross_entropy_and_z_loss(hidden, output_weight(), targets, coefficient, options);
}

Tensor LanguageModel::look_up(const Tensor& ids, const Tensor& table) {
  return cast(embedding(ids, table), DType::kF32);
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
                             const AttentionForm& form) const {
  const auto joined = [&](const Tensor& mixed) {
    return reshape(mixed, {q.size(0), q.size(1), config_.heads * config_.head_dim});
  };
  if (inputs.cache != nullptr) {
    CAUSEWAY_CHECK(form.window == window(inputs.layer));
    const KeyValueCache::Layer kept = inputs.cache->keep(inputs.layer, k, v, inputs.positions);
    const Tensor& slots = kept.is_ring ? inputs.ring_slots : inputs.cached_positions;
    if (slots.defined()) return joined(attend_to_cache(q, kept, inputs.positions, slots, form));
  }
  AttentionOptions options;
  options.mask = inputs.order.of_places(form.window > 0 ? sliding_window_mask(form.window) : causal_mask());
  if (inputs.documents.defined()) options.mask = and_masks({options.mask, document_mask(inputs.documents)});
  if (form.slopes.defined()) options.score = alibi_score(form.slopes);
  if (form.softcap > 0) {
    CAUSEWAY_CHECK(!options.score, "no family has ALiBi and capped scores");
    options.score = softcap_score(form.softcap);
  }
  options.score = inputs.order.of_places(std::move(options.score));
  if (form.scale > 0) options.scale = form.scale;
  return joined(attention(q, k, v, options));
}

}  // namespace causeway::model
