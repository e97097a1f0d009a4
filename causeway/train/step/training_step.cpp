#include "causeway/train/step/training_step.h"

#include "causeway/base/error.h"
#include "causeway/model/parameter_sharding.h"
#include "causeway/tensor/ops.h"
#include "causeway/train/log/progress_line.h"
#include "causeway/train/step/batch_tensor.h"

namespace causeway::train {
namespace {

// Positions in the `hyper` argument, f32.
enum Hyper : int64_t { kLearningRate, kStep, kHyperCount };

Tensor scalar_at(const Tensor& vector, int64_t index) { return reshape(narrow(vector, 0, index, 1), {}); }

template <class T>
std::span<const std::byte> bytes_of(std::span<const T> values) {
  return std::as_bytes(values);
}

Tensor zeros_in_memory(const Shape& shape, const Sharding& sharding = {}) {
  return Tensor::zeroed(evaluate(shape, {}), DType::kF32, sharding);
}

}  // namespace

PipelineOptions pipeline_options(const Recipe& recipe) {
  PipelineOptions options;
  const bool narrow = recipe.train.precision == "bf16" || recipe.train.precision == "fp8";
  options.mixed_precision.compute = narrow ? DType::kBF16 : DType::kF32;
  options.fp8_products = recipe.train.precision == "fp8";
  options.tf32_products = recipe.train.precision == "tf32";
  options.recompute = *parse_recompute_policy(recipe.train.recompute);
  options.narrow_logits = narrow;
  return options;
}

void require_memory_for_weights(const Device& device, const Recipe& recipe) {
  const int64_t optimizer = recipe.micro_batches() > 1 ? 3 : 2;  // two moments, sums over micro-batches
  const int64_t all = parameter_count(recipe.model) * static_cast<int64_t>(sizeof(float));
  const int64_t weights = all / (recipe.mesh.fsdp * recipe.mesh.tp);
  const int64_t bytes = weights + weights / recipe.mesh.dp * optimizer;
  if (device.memory_limit() == 0 || bytes <= device.memory_limit()) return;
  throw Error(ErrorKind::kResource,
              fmt::format("weights and optimizer need {}, and {} has {}", format_bytes(static_cast<uint64_t>(bytes)),
                          device.name(), format_bytes(static_cast<uint64_t>(device.memory_limit()))),
              "model", "Train a smaller model, or on a device with more memory.");
}

TrainingStep::TrainingStep(LanguageModel& model, const Recipe& recipe)
    : model_(model), recipe_(recipe), context_(model.parameters().front().tensor.context()) {
  const ContextScope scope(context_);
  for (const Parameter& parameter : model.parameters()) {
    weights_.push_back(parameter.tensor);
    const Shape& shape = parameter.tensor.shape();
    optimizer_shardings_.push_back(optimizer_sharding(shape, parameter.tensor.sharding(), context_->mesh()));
    moment1_.push_back(zeros_in_memory(shape, optimizer_shardings_.back()));
    moment2_.push_back(zeros_in_memory(shape, optimizer_shardings_.back()));
    state_.push_back({"moment1." + parameter.name, moment1_.back()});
    state_.push_back({"moment2." + parameter.name, moment2_.back()});
    if (accumulates()) gradient_sums_.push_back(zeros_in_memory(shape, optimizer_shardings_.back()));
  }
  const int64_t rows = recipe.train.micro_batch_size, length = recipe.data.sequence_length;
  tokens_ = make_batch_tensor(rows, length);
  targets_ = make_batch_tensor(rows, length);
  // Without a mask nothing reads them.
  documents_ =
      recipe.data.document_mask ? make_batch_tensor(rows, length) : Tensor::uninitialized({rows, 1}, DType::kI32);
  target_weight_ = Tensor::uninitialized({}, DType::kF32);
  key_ = Tensor::uninitialized({2}, DType::kI64);
  hyper_ = Tensor::uninitialized({kHyperCount}, DType::kF32);
  if (accumulates()) loss_sum_ = zeros_in_memory({});

  StepOptions options;
  options.program.pipeline = pipeline_options(recipe);
  main_ = std::make_unique<Step>(
      [this](const std::vector<Tensor>& arguments) { return accumulates() ? accumulate(arguments) : fused(arguments); },
      options);
  if (accumulates())
    apply_ = std::make_unique<Step>([this](const std::vector<Tensor>& arguments) { return apply(arguments); }, options);
}

std::vector<StepArgument> TrainingStep::main_arguments() const {
  return {tokens_, targets_, documents_, target_weight_, key_, hyper_};
}

void TrainingStep::prepare() {
  main_->prepare(main_arguments());
  if (apply_ != nullptr) apply_->prepare({hyper_});
}

StepCost TrainingStep::cost() {
  StepCost cost;
  for (const Tensor& weight : weights_) cost.parameter_bytes += weight.local_bytes();
  for (const Tensor& moment : moment1_) cost.optimizer_bytes += moment.local_bytes() * (accumulates() ? 3 : 2);
  cost.arena_bytes = main_->prepare(main_arguments()).memory().arena_bytes;
  if (apply_ != nullptr) cost.arena_bytes = std::max(cost.arena_bytes, apply_->prepare({hyper_}).memory().arena_bytes);
  cost.flops = count_flops(main_->traced_graph(main_arguments())).scaled(static_cast<double>(recipe_.micro_batches()));
  return cost;
}

std::vector<Graph> TrainingStep::trace() const {
  std::vector<Graph> graphs = {main_->trace(main_arguments())};
  if (apply_ != nullptr) graphs.push_back(apply_->trace({hyper_}));
  return graphs;
}

std::string TrainingStep::program_hash() {
  std::string hash = main_->prepare(main_arguments()).hash().hex();
  if (apply_ != nullptr) hash += apply_->prepare({hyper_}).hash().hex();
  return hash;
}

std::map<std::string, double> TrainingStep::operand_shares() {
  FlopCount count = count_flops(main_->prepare(main_arguments()).graph());
  PipelineOptions options = pipeline_options(recipe_);
  // What is computed twice counts once. It matters where there are several types to be weighed.
  if (count.by_operand.size() > 1 && options.recompute != RecomputePolicy::kNone) {
    options.recompute = RecomputePolicy::kNone;
    count = count_flops(context_->run_passes(main_->traced_graph(main_arguments()), options));
  }
  std::map<std::string, double> shares = count.by_operand;
  for (auto& [operand, share] : shares) share /= count.total();
  return shares;
}

Tensor TrainingStep::loss(const std::vector<Tensor>& arguments) const {
  ForwardInputs inputs;
  inputs.tokens = arguments[0];
  if (recipe_.data.document_mask) inputs.documents = arguments[2];
  if (model_.config().dropout > 0) inputs.dropout_key = arguments[4];
  const Tensor& targets = arguments[1];
  const Tensor weights = where(ge(targets, 0.0), broadcast_to(arguments[3], targets.shape()), 0.0);
  return model_.loss(inputs, targets, weights);
}

std::vector<Tensor> TrainingStep::fused(const std::vector<Tensor>& arguments) {
  const Tensor value = loss(arguments);
  const std::vector<Tensor> gradient = gradients(value, weights_);
  std::vector<Tensor> results = {value};
  for (Tensor& figure : update(value, gradient, arguments[5])) results.push_back(std::move(figure));
  return results;
}

std::vector<Tensor> TrainingStep::accumulate(const std::vector<Tensor>& arguments) {
  const Tensor value = loss(arguments);
  const std::vector<Tensor> gradient = gradients(value, weights_);
  for (size_t i = 0; i < gradient.size(); ++i) gradient_sums_[i].assign(gradient_sums_[i] + gradient[i]);
  loss_sum_.assign(loss_sum_ + value);
  return {};
}

std::vector<Tensor> TrainingStep::apply(const std::vector<Tensor>& arguments) {
  const Tensor value = loss_sum_ * 1.0;
  std::vector<Tensor> results = {value};
  for (Tensor& figure : update(value, gradient_sums_, arguments[0])) results.push_back(std::move(figure));
  for (Tensor& sum : gradient_sums_) sum.assign(zeros_like(sum));
  loss_sum_.assign(zeros_like(loss_sum_));
  return results;
}

std::vector<Tensor> TrainingStep::update(const Tensor& loss, std::vector<Tensor> gradients, const Tensor& hyper) {
  const Scope scope("optimizer");
  // Each rank updates what it holds of the moments, so no more of a gradient has to be summed up there.
  for (size_t i = 0; i < gradients.size(); ++i)
    gradients[i] = constrain_sharding(gradients[i], optimizer_shardings_[i]);
  const Recipe::Optimizer& optimizer = recipe_.optimizer;
  const Tensor norm = global_norm(gradients);
  const Tensor finite = logical_and(isfinite(loss), isfinite(norm));
  const Tensor scale = optimizer.gradient_clip > 0 ? clip_scale(norm, optimizer.gradient_clip) : ones_like(norm);
  const Tensor rate = scalar_at(hyper, kLearningRate), step = scalar_at(hyper, kStep);
  for (size_t i = 0; i < weights_.size(); ++i) {
    AdamWOptions options{optimizer.beta1, optimizer.beta2, optimizer.epsilon, optimizer.weight_decay};
    if (!model_.parameters()[i].decays) options.weight_decay = 0;
    const AdamWUpdate updated =
        adamw_update(weights_[i], gradients[i] * scale, moment1_[i], moment2_[i], rate, step, options);
    const auto keep_unless_finite = [&](Tensor& target, const Tensor& value) {
      target.assign(where(broadcast_to(finite, value.shape()), value, target));
    };
    keep_unless_finite(weights_[i], updated.parameter);
    keep_unless_finite(moment1_[i], updated.first_moment);
    keep_unless_finite(moment2_[i], updated.second_moment);
  }
  return {norm, cast(finite, DType::kF32)};
}

void TrainingStep::write_batch(const TrainingBatch& batch, int64_t micro_batch, int64_t step) {
  const size_t count = static_cast<size_t>(own_rows().count * recipe_.data.sequence_length);
  const size_t first = static_cast<size_t>(micro_batch) * count;
  CAUSEWAY_CHECK(first + count <= batch.inputs.size() && batch.inputs.size() == batch.targets.size());
  write_own_rows(tokens_, batch.inputs.subspan(first, count));
  write_own_rows(targets_, batch.targets.subspan(first, count));
  if (recipe_.data.document_mask) write_own_rows(documents_, batch.documents.subspan(first, count));
  const float weight = batch.valid_targets > 0 ? 1.0f / static_cast<float>(batch.valid_targets) : 0.0f;
  target_weight_.write_bytes(bytes_of(std::span<const float>(&weight, 1)));
  const int64_t key[] = {recipe_.train.seed, step * recipe_.micro_batches() + micro_batch};
  key_.write_bytes(bytes_of(std::span<const int64_t>(key)));
}

void TrainingStep::write_hyper(int64_t step, double learning_rate) {
  float hyper[kHyperCount];
  hyper[kLearningRate] = static_cast<float>(learning_rate);
  hyper[kStep] = static_cast<float>(step + 1);
  hyper_.write_bytes(bytes_of(std::span<const float>(hyper)));
}

StepFigures TrainingStep::run(const TrainingBatch& batch, int64_t step, double learning_rate) {
  write_hyper(step, learning_rate);
  const std::vector<Tensor> arguments = {tokens_, targets_, documents_, target_weight_, key_, hyper_};
  std::vector<Tensor> results;
  for (int64_t micro_batch = 0; micro_batch < recipe_.micro_batches(); ++micro_batch) {
    write_batch(batch, micro_batch, step);
    updating_ = !accumulates();
    results = main_->run(arguments);
  }
  updating_ = true;
  if (apply_ != nullptr) results = apply_->run({hyper_});
  const StepFigures figures{results[0].item(), results[1].item(), results[2].item() != 0};
  updating_ = false;
  return figures;
}

std::vector<double> TrainingStep::run_timed(const TrainingBatch& batch, int64_t step, double learning_rate) {
  write_hyper(step, learning_rate);
  write_batch(batch, 0, step);
  return main_->run_timed({tokens_, targets_, documents_, target_weight_, key_, hyper_});
}

std::optional<NonFiniteValue> TrainingStep::find_non_finite(const TrainingBatch& batch, int64_t step,
                                                            double learning_rate) {
  write_hyper(step, learning_rate);
  const std::vector<Tensor> arguments = {tokens_, targets_, documents_, target_weight_, key_, hyper_};
  std::optional<NonFiniteValue> found;
  for (int64_t micro_batch = 0; micro_batch < recipe_.micro_batches() && !found; ++micro_batch) {
    write_batch(batch, micro_batch, step);
    found = main_->find_non_finite(arguments);
  }
  // What the search added up must not reach the next step.
  for (Tensor& sum : gradient_sums_) sum.write_bytes(std::vector<std::byte>(static_cast<size_t>(sum.local_bytes())));
  if (loss_sum_.defined()) loss_sum_.write_bytes(std::vector<std::byte>(sizeof(float)));
  return found;
}

}  // namespace causeway::train
