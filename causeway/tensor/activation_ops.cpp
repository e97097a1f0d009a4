#include "causeway/tensor/activation_ops.h"

#include <numbers>

#include "causeway/tensor/arithmetic_ops.h"
#include "causeway/tensor/comparison_ops.h"
#include "causeway/tensor/shape_ops.h"

namespace causeway::tensor {
namespace {

// Below, x is f32.

// -|x| with the derivative of -x at 0, so that sums of the two sides have the right slope there.
Tensor negative_magnitude(const Tensor& x) { return where(gt(x, 0.0), -x, x); }

// The bound keeps the power finite, so that the gradient is not 0 times infinity.
Tensor sigmoid_f32(const Tensor& x) { return reciprocal(exp(minimum(-x, 80.0)) + 1.0); }

Tensor softplus_f32(const Tensor& x) { return where(gt(x, 0.0), x, 0.0) + log1p(exp(negative_magnitude(x))); }

// The bounds come first, so that ties give them the gradient.
Tensor hardtanh_f32(const Tensor& x, double low, double high) { return minimum(high, maximum(low, x)); }

// exp(x) - 1 where x is negative, else 0.
Tensor negative_expm1(const Tensor& x) { return expm1(minimum(0.0, x)); }

Tensor elu_f32(const Tensor& x, double positive_scale, double negative_scale) {
  return where(gt(x, 0.0), positive_scale * x, negative_scale * negative_expm1(x));
}

// The product of an activation of the gate with the other half.
template <class Activation>
Tensor gated(std::string_view function, const Tensor& gate, const Tensor& up, Activation activation) {
  const std::vector<Tensor> halves = match_float_operands(function, {gate, up});
  return cast(activation(cast(halves[0], DType::kF32)) * cast(halves[1], DType::kF32), halves[0].dtype());
}

}  // namespace

Tensor sigmoid(const Tensor& x) { return compute_in_f32(x, sigmoid_f32); }

Tensor log_sigmoid(const Tensor& x) {
  return compute_in_f32(x, [](const Tensor& wide) { return -softplus_f32(-wide); });
}

Tensor softplus(const Tensor& x, double beta) {
  require_argument(beta > 0, "softplus", fmt::format("takes a positive beta, not {}", beta), {x});
  return compute_in_f32(
      x, [&](const Tensor& wide) { return beta == 1 ? softplus_f32(wide) : softplus_f32(wide * beta) * (1 / beta); });
}

Tensor relu(const Tensor& x) { return maximum(0, x); }

Tensor relu6(const Tensor& x) { return hardtanh(x, 0, 6); }

Tensor leaky_relu(const Tensor& x, double negative_slope) {
  return compute_in_f32(x, [&](const Tensor& wide) { return where(gt(wide, 0.0), wide, negative_slope * wide); });
}

Tensor elu(const Tensor& x, double alpha) {
  return compute_in_f32(x, [&](const Tensor& wide) { return elu_f32(wide, 1, alpha); });
}

Tensor celu(const Tensor& x, double alpha) {
  require_argument(alpha != 0, "celu", "takes an alpha that is not 0", {x});
  return compute_in_f32(x, [&](const Tensor& wide) {
    return where(gt(wide, 0.0), wide, alpha * negative_expm1(where(gt(wide, 0.0), 0.0, wide) * (1 / alpha)));
  });
}

Tensor selu(const Tensor& x) {
  // Klambauer et al., 2017.
  constexpr double kScale = 1.0507009873554804934193349852946, kAlpha = 1.6732632423543772848170429916717;
  return compute_in_f32(x, [](const Tensor& wide) { return elu_f32(wide, kScale, kScale * kAlpha); });
}

Tensor gelu(const Tensor& x, GeluApproximation approximation) {
  return compute_in_f32(x, [&](const Tensor& wide) {
    if (approximation == GeluApproximation::kNone) return 0.5 * wide * (1.0 + erf(wide * (1 / std::numbers::sqrt2)));
    // (1 + tanh(u)) / 2 is sigmoid(2 u), which costs less and keeps its digits where it is small.
    constexpr double kScale = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
    return wide * sigmoid_f32(kScale * wide * (1.0 + 0.044715 * wide * wide));
  });
}

Tensor quick_gelu(const Tensor& x) {
  return compute_in_f32(x, [](const Tensor& wide) { return wide * sigmoid_f32(1.702 * wide); });
}

Tensor silu(const Tensor& x) {
  return compute_in_f32(x, [](const Tensor& wide) { return wide * sigmoid_f32(wide); });
}

Tensor mish(const Tensor& x) {
  return compute_in_f32(x, [](const Tensor& wide) { return wide * tanh(softplus_f32(wide)); });
}

Tensor hardsigmoid(const Tensor& x) {
  return compute_in_f32(x, [](const Tensor& wide) { return hardtanh_f32(wide + 3.0, 0, 6) * (1.0 / 6); });
}

Tensor hardswish(const Tensor& x) {
  return compute_in_f32(x, [](const Tensor& wide) { return wide * hardtanh_f32(wide + 3.0, 0, 6) * (1.0 / 6); });
}

Tensor hardtanh(const Tensor& x, double low, double high) {
  require_argument(low <= high, "hardtanh", fmt::format("{} is above {}", low, high), {x});
  return compute_in_f32(x, [&](const Tensor& wide) { return hardtanh_f32(wide, low, high); });
}

Tensor softsign(const Tensor& x) {
  return compute_in_f32(x, [](const Tensor& wide) { return wide / (1.0 + abs(wide)); });
}

Tensor tanhshrink(const Tensor& x) {
  return compute_in_f32(x, [](const Tensor& wide) { return wide - tanh(wide); });
}

Tensor softshrink(const Tensor& x, double lambda) {
  require_argument(lambda >= 0, "softshrink", fmt::format("takes a lambda of at least 0, not {}", lambda), {x});
  return compute_in_f32(x, [&](const Tensor& wide) {
    return where(gt(wide, lambda), wide - lambda, where(lt(wide, -lambda), wide + lambda, 0.0));
  });
}

Tensor hardshrink(const Tensor& x, double lambda) {
  return compute_in_f32(x, [&](const Tensor& wide) { return where(gt(abs(wide), lambda), wide, 0.0); });
}

Tensor threshold(const Tensor& x, double threshold, double value) {
  return compute_in_f32(x, [&](const Tensor& wide) { return where(gt(wide, threshold), wide, value); });
}

Tensor softcap(const Tensor& x, double cap) {
  require_argument(cap > 0, "softcap", fmt::format("takes a positive cap, not {}", cap), {x});
  return compute_in_f32(x, [&](const Tensor& wide) { return cap * tanh(wide * (1 / cap)); });
}

Tensor glu(const Tensor& x, int64_t axis) {
  const std::vector<Tensor> halves = chunk(x, 2, axis);
  require_argument(halves.size() == 2 && halves[0].shape() == halves[1].shape(), "glu",
                   fmt::format("axis {} has no two equal halves", axis), {x});
  return gated("glu", halves[1], halves[0], sigmoid_f32);
}

Tensor swiglu(const Tensor& gate, const Tensor& up) { return gated("swiglu", gate, up, silu); }

Tensor geglu(const Tensor& gate, const Tensor& up, GeluApproximation approximation) {
  return gated("geglu", gate, up, [&](const Tensor& wide) { return gelu(wide, approximation); });
}

Tensor reglu(const Tensor& gate, const Tensor& up) { return gated("reglu", gate, up, relu); }

}  // namespace causeway::tensor
