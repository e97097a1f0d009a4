#include "causeway/tensor/optimizer_ops.h"

#include <cmath>

#include "causeway/tensor/arithmetic_ops.h"
#include "causeway/tensor/reduction_ops.h"

namespace causeway::tensor {
namespace {

Tensor wide(const Tensor& x) { return cast(x, DType::kF32); }

void require_one_shape(std::string_view function, std::initializer_list<Tensor> tensors) {
  for (const Tensor& tensor : tensors)
    require_argument(tensor.shape() == tensors.begin()->shape(), function,
                     "takes a parameter, its gradient and its state of one shape", tensors);
}

void require_scalar(std::string_view function, const std::string& name, const Operand& operand) {
  if (!operand.is_number())
    require_argument(operand.tensor().rank() == 0, function, fmt::format("takes a scalar {}", name),
                     {operand.tensor()});
}

// 1 - beta^step without cancellation.
Tensor bias_correction(double beta, const Tensor& step) { return -expm1(wide(step) * std::log(beta)); }

}  // namespace

AdamWUpdate adamw_update(const Tensor& parameter, const Tensor& gradient, const Tensor& first_moment,
                         const Tensor& second_moment, const Operand& learning_rate, const Tensor& step,
                         const AdamWOptions& options) {
  require_one_shape("adamw_update", {parameter, gradient, first_moment, second_moment});
  require_scalar("adamw_update", "learning rate", learning_rate);
  require_scalar("adamw_update", "step", step);
  const Tensor g = wide(gradient), p = wide(parameter);
  const Tensor m = options.beta1 * wide(first_moment) + (1 - options.beta1) * g;
  const Tensor v = options.beta2 * wide(second_moment) + (1 - options.beta2) * (g * g);
  const Tensor rate = wide(constant_tensor(DType::kF32, {}, 1) * learning_rate);
  const Tensor first_scale = rate / bias_correction(options.beta1, step);
  const Tensor second_scale = rsqrt(bias_correction(options.beta2, step));
  const Tensor decayed = options.weight_decay == 0 ? p : p * (1.0 - rate * options.weight_decay);
  const Tensor updated = decayed - first_scale * (m / (sqrt(v) * second_scale + options.eps));
  return {cast(updated, parameter.dtype()), cast(m, first_moment.dtype()), cast(v, second_moment.dtype())};
}

SgdUpdate sgd_update(const Tensor& parameter, const Tensor& gradient, const Tensor& momentum_buffer,
                     const Operand& learning_rate, const SgdOptions& options) {
  require_one_shape("sgd_update", {parameter, gradient, momentum_buffer});
  require_scalar("sgd_update", "learning rate", learning_rate);
  const Tensor p = wide(parameter);
  const Tensor g = options.weight_decay == 0 ? wide(gradient) : wide(gradient) + options.weight_decay * p;
  const Tensor buffer = options.momentum * wide(momentum_buffer) + g;
  const Tensor direction = options.nesterov ? g + options.momentum * buffer : buffer;
  return {cast(p - direction * learning_rate, parameter.dtype()), cast(buffer, momentum_buffer.dtype())};
}

Tensor sum_of_squares(std::span<const Tensor> tensors) {
  Tensor total = constant_tensor(DType::kF32, {}, 0);
  for (const Tensor& tensor : tensors) {
    const Tensor t = wide(tensor);
    total = total + sum(t * t);
  }
  return total;
}

Tensor global_norm(std::span<const Tensor> gradients) { return sqrt(sum_of_squares(gradients)); }

Tensor clip_scale(const Tensor& norm, double max_norm) {
  require_argument(max_norm > 0, "clip_scale", fmt::format("takes a positive maximum, not {}", max_norm), {norm});
  return minimum(max_norm / (norm + 1e-6), 1.0);
}

std::vector<Tensor> clip_by_global_norm(std::span<const Tensor> gradients, double max_norm) {
  const Tensor scale = clip_scale(global_norm(gradients), max_norm);
  std::vector<Tensor> clipped;
  for (const Tensor& gradient : gradients) clipped.push_back(cast(wide(gradient) * scale, gradient.dtype()));
  return clipped;
}

}  // namespace causeway::tensor
