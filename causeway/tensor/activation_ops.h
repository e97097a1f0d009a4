// Activation functions. All take floats (integers become f32), compute in f32 and round once to the dtype of x.
// Derivatives at a kink are PyTorch's: 0 at 0 for relu, 0 at both bounds of hardtanh and what is made of it.
#pragma once

#include "causeway/tensor/operand.h"

namespace causeway::tensor {

enum class GeluApproximation { kNone, kTanh };

Tensor sigmoid(const Tensor& x);                    // accurate at both ends; no overflow in its gradient
Tensor log_sigmoid(const Tensor& x);                // -softplus(-x)
Tensor softplus(const Tensor& x, double beta = 1);  // log(1 + exp(beta x)) / beta
Tensor relu(const Tensor& x);
Tensor relu6(const Tensor& x);
Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01);
Tensor elu(const Tensor& x, double alpha = 1);
Tensor celu(const Tensor& x, double alpha = 1);
Tensor selu(const Tensor& x);
// x Phi(x) with the normal distribution function (exact), or its tanh approximation (Hendrycks and Gimpel, 2016).
Tensor gelu(const Tensor& x, GeluApproximation approximation = GeluApproximation::kNone);
Tensor quick_gelu(const Tensor& x);  // x sigmoid(1.702 x)
Tensor silu(const Tensor& x);        // x sigmoid(x)
Tensor mish(const Tensor& x);        // x tanh(softplus(x))
Tensor hardsigmoid(const Tensor& x);
Tensor hardswish(const Tensor& x);
Tensor hardtanh(const Tensor& x, double low = -1, double high = 1);
Tensor softsign(const Tensor& x);
Tensor tanhshrink(const Tensor& x);
Tensor softshrink(const Tensor& x, double lambda = 0.5);
Tensor hardshrink(const Tensor& x, double lambda = 0.5);
Tensor threshold(const Tensor& x, double threshold, double value);  // x > threshold ? x : value
Tensor softcap(const Tensor& x, double cap);                        // cap tanh(x / cap)

// Gated linear units (Shazeer, 2020): an activation of one half of the projection times the other half.
Tensor glu(const Tensor& x, int64_t axis = -1);  // first half times the sigmoid of the second
Tensor swiglu(const Tensor& gate, const Tensor& up);
Tensor geglu(const Tensor& gate, const Tensor& up, GeluApproximation approximation = GeluApproximation::kNone);
Tensor reglu(const Tensor& gate, const Tensor& up);

}  // namespace causeway::tensor
