#include "causeway/tensor/loss_ops.h"

#include <cmath>

#include "causeway/graph/op.h"
#include "causeway/tensor/activation_ops.h"
#include "causeway/tensor/arithmetic_ops.h"
#include "causeway/tensor/comparison_ops.h"
#include "causeway/tensor/reduction_ops.h"
#include "causeway/tensor/shape_ops.h"

namespace causeway::tensor {
namespace {

Tensor reduce_loss(const Tensor& loss, Reduction reduction) {
  switch (reduction) {
    case Reduction::kNone:
      return loss;
    case Reduction::kSum:
      return sum(loss);
    case Reduction::kBatchMean:
      return sum(loss) / dimension_scalar(loss.rank() == 0 ? Dim(1) : loss.size(0));
    default:
      return mean(loss);
  }
}

// Both in f32 and of one shape: a loss that broadcasts is nearly always a mistake.
std::vector<Tensor> match_targets(std::string_view function, const Tensor& x, const Tensor& target) {
  require_argument(x.shape() == target.shape(), function, "takes a prediction and a target of one shape", {x, target},
                   "Reshape or broadcast the target explicitly.");
  return {cast(x, DType::kF32), cast(target, DType::kF32)};
}

void require_targets(std::string_view function, const Tensor& scores, const Tensor& targets) {
  const bool integers = targets.dtype() == DType::kI32 || targets.dtype() == DType::kI64;
  require_argument(integers && scores.rank() == targets.rank() + 1 &&
                       targets.shape() == Shape(scores.shape().begin(), scores.shape().end() - 1),
                   function, "takes scores [..., classes] and i32 or i64 targets [...]", {scores, targets});
}

Tensor reduce_targets(const Tensor& loss, const Tensor& counts, Reduction reduction) {
  const Tensor valid = where(counts, loss, 0.0);
  if (reduction != Reduction::kMean) return reduce_loss(valid, reduction);
  return sum(valid) / sum(cast(counts, DType::kF32));
}

// From log-probabilities in f32.
Tensor target_loss(std::string_view function, const Tensor& log_probabilities, const Tensor& targets,
                   const CrossEntropyOptions& options) {
  const double smoothing = options.label_smoothing;
  require_argument(smoothing >= 0 && smoothing <= 1, function,
                   fmt::format("a label smoothing of {} is not within [0, 1]", smoothing));
  const Shape& shape = log_probabilities.shape();
  const Tensor classes = index_tensor(targets.dtype(), shape, targets.rank());
  Tensor loss = -sum(where(eq(classes, unsqueeze(targets, -1)), log_probabilities, 0.0), -1);
  if (smoothing > 0) loss = (1 - smoothing) * loss - smoothing * mean(log_probabilities, -1);
  return reduce_targets(loss, ne(targets, options.ignore_index), options.reduction);
}

// Of [tokens] each.
struct CountedTargets {
  Tensor targets, counts, weights;
};

CountedTargets count_targets(const Tensor& targets, const LinearCrossEntropyOptions& options) {
  const Dim tokens = element_count(targets.shape());
  const Tensor flat_targets = reshape(targets, {tokens});
  const Tensor counts = ne(flat_targets, options.ignore_index);
  Tensor weights = constant_tensor(DType::kF32, {tokens}, 1);
  if (options.token_weights.defined()) {
    require_argument(options.token_weights.shape() == targets.shape(), "linear_cross_entropy",
                     "takes token weights shaped as the targets", {targets, options.token_weights});
    weights = reshape(cast(options.token_weights, DType::kF32), {tokens});
  }
  return {flat_targets, counts, weights};
}

// The outputs of the primitive.
std::vector<Tensor> losses_of_logits(const Tensor& x, const Tensor& weight, const CountedTargets& counted,
                                     const LinearCrossEntropyOptions& options, double z_loss) {
  // A negative target is what the op itself leaves out.
  const Tensor known = options.ignore_index < 0 ? counted.targets : where(counted.counts, counted.targets, -1);
  Attributes attributes;
  attributes.value = options.softcap;
  attributes.z_loss = z_loss;
  const std::vector<Tensor> inputs = {reshape(x, {counted.targets.size(0), x.size(-1)}), weight, known,
                                      counted.weights};
  return apply_all(Op::kLinearCrossEntropy, inputs, std::move(attributes));
}

void require_linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& targets,
                                  const LinearCrossEntropyOptions& options) {
  require_targets("linear_cross_entropy", x, targets);
  require_argument(
      weight.rank() == 2 && weight.size(1) == x.size(-1) && is_float(x.dtype()) && is_float(weight.dtype()),
      "linear_cross_entropy", "takes floats x [..., channels] and weight [classes, channels]", {x, weight});
  require_argument(options.reduction != Reduction::kBatchMean, "linear_cross_entropy",
                   "reduces to a mean, a sum or not at all", {x, weight}, "Use cross_entropy.");
  require_argument(options.softcap >= 0 && std::isfinite(options.softcap), "linear_cross_entropy",
                   fmt::format("takes a softcap above 0, or 0 for none, not {}", options.softcap), {x, weight});
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options) {
  require_targets("cross_entropy", logits, targets);
  return target_loss("cross_entropy", log_softmax(cast(logits, DType::kF32), -1), targets, options);
}

Tensor nll_loss(const Tensor& log_probabilities, const Tensor& targets, const CrossEntropyOptions& options) {
  require_targets("nll_loss", log_probabilities, targets);
  return target_loss("nll_loss", cast(log_probabilities, DType::kF32), targets, options);
}

Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& targets,
                            const LinearCrossEntropyOptions& options) {
  require_linear_cross_entropy(x, weight, targets, options);
  const CountedTargets counted = count_targets(targets, options);
  const std::vector<Tensor> outputs = losses_of_logits(x, weight, counted, options, 0);
  if (options.reduction == Reduction::kNone) return reshape(outputs[3], targets.shape());
  const Tensor& loss = outputs[0];
  if (options.reduction == Reduction::kSum) return loss;
  return loss / sum(where(counted.counts, counted.weights, 0.0));
}

LossAndZLoss linear_cross_entropy_and_z_loss(const Tensor& x, const Tensor& weight, const Tensor& targets,
                                             double coefficient, const LinearCrossEntropyOptions& options) {
  require_argument(coefficient > 0 && std::isfinite(coefficient), "linear_cross_entropy_and_z_loss",
                   fmt::format("takes a coefficient above 0, not {}", coefficient), {x, weight});
  require_argument(options.reduction == Reduction::kSum, "linear_cross_entropy_and_z_loss", "gives sums", {x, weight},
                   "Give weights of tokens that add up to 1 for means.");
  require_linear_cross_entropy(x, weight, targets, options);
  const std::vector<Tensor> outputs =
      losses_of_logits(x, weight, count_targets(targets, options), options, coefficient);
  return {outputs[0], outputs[4]};
}

Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction reduction) {
  const std::vector<Tensor> pair = match_targets("mse_loss", x, target);
  return reduce_loss(square(pair[0] - pair[1]), reduction);
}

Tensor l1_loss(const Tensor& x, const Tensor& target, Reduction reduction) {
  const std::vector<Tensor> pair = match_targets("l1_loss", x, target);
  return reduce_loss(abs(pair[0] - pair[1]), reduction);
}

Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, Reduction reduction, double beta) {
  require_argument(beta >= 0, "smooth_l1_loss", fmt::format("takes a beta of at least 0, not {}", beta), {x, target});
  if (beta == 0) return l1_loss(x, target, reduction);
  const std::vector<Tensor> pair = match_targets("smooth_l1_loss", x, target);
  const Tensor distance = pair[0] - pair[1], length = abs(distance);
  return reduce_loss(where(lt(length, beta), square(distance) * (0.5 / beta), length - 0.5 * beta), reduction);
}

Tensor huber_loss(const Tensor& x, const Tensor& target, Reduction reduction, double delta) {
  require_argument(delta > 0, "huber_loss", fmt::format("takes a positive delta, not {}", delta), {x, target});
  const std::vector<Tensor> pair = match_targets("huber_loss", x, target);
  const Tensor distance = pair[0] - pair[1], length = abs(distance);
  return reduce_loss(where(le(length, delta), 0.5 * square(distance), delta * (length - 0.5 * delta)), reduction);
}

Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target, Reduction reduction,
                                        const Operand& positive_weight) {
  const std::vector<Tensor> pair = match_targets("binary_cross_entropy_with_logits", x, target);
  const Tensor &logit = pair[0], &truth = pair[1];
  // -log(1 - sigmoid(x)) = softplus(x) and -log sigmoid(x) = softplus(-x) = softplus(x) - x.
  const Tensor positive = truth * positive_weight;
  return reduce_loss(positive * softplus(-logit) + (1.0 - truth) * softplus(logit), reduction);
}

Tensor kl_div(const Tensor& x, const Tensor& target, Reduction reduction, bool log_target) {
  const std::vector<Tensor> pair = match_targets("kl_div", x, target);
  if (log_target) return reduce_loss(exp(pair[1]) * (pair[1] - pair[0]), reduction);
  const Tensor positive = gt(pair[1], 0.0);
  return reduce_loss(where(positive, pair[1] * (log(where(positive, pair[1], 1.0)) - pair[0]), 0.0), reduction);
}

}  // namespace causeway::tensor
