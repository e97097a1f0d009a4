// Parameter updates and gradient clipping as tensor functions, computed in f32 and rounded once to each tensor's dtype.
// They return new values; assign() them inside a Step to update in place.
#pragma once

#include "causeway/tensor/operand.h"

namespace causeway::tensor {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
};

struct AdamWUpdate {
  Tensor parameter, first_moment, second_moment;
};

// Loshchilov and Hutter, 2019: m' = b1 m + (1 - b1) g, v' = b2 v + (1 - b2) g^2 and
// p' = p (1 - lr decay) - lr m'/(1 - b1^step) / (sqrt(v'/(1 - b2^step)) + eps), as torch.optim.AdamW. The step is a
// scalar tensor that counts from 1; the learning rate is a scalar tensor or a number.
AdamWUpdate adamw_update(const Tensor& parameter, const Tensor& gradient, const Tensor& first_moment,
                         const Tensor& second_moment, const Operand& learning_rate, const Tensor& step,
                         const AdamWOptions& options = {});

struct SgdOptions {
  double momentum = 0.9;
  double weight_decay = 0;
  bool nesterov = false;
};

struct SgdUpdate {
  Tensor parameter, momentum;
};
// With d = g + decay p: b' = momentum b + d, p' = p - lr b', or with Nesterov's momentum p - lr (d + momentum b'), as
// torch.optim.SGD without dampening.
SgdUpdate sgd_update(const Tensor& parameter, const Tensor& gradient, const Tensor& momentum_buffer,
                     const Operand& learning_rate, const SgdOptions& options = {});

// Of all elements together, f32 [].
Tensor sum_of_squares(std::span<const Tensor> tensors);
// The 2-norm of all elements together, f32 [].
Tensor global_norm(std::span<const Tensor> gradients);
// What to multiply gradients of that norm by so that it is at most max_norm: min(1, max_norm / (norm + 1e-6)), as
// torch.nn.utils.clip_grad_norm_.
Tensor clip_scale(const Tensor& norm, double max_norm);
// All gradients times clip_scale(global_norm(gradients), max_norm).
std::vector<Tensor> clip_by_global_norm(std::span<const Tensor> gradients, double max_norm);

}  // namespace causeway::tensor
