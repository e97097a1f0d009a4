#include "causeway/tensor/arithmetic_ops.h"

#include <cmath>
#include <numbers>

#include "causeway/graph/op.h"
#include "causeway/tensor/comparison_ops.h"

namespace causeway::tensor {
namespace {

Tensor binary(Op op, std::string_view function, const Operand& a, const Operand& b) {
  const std::vector<Tensor> operands = match_operands(function, {a, b});
  require_argument(operands[0].dtype() != DType::kBool, function, "takes numbers", {operands[0], operands[1]},
                   "Cast bools, or use logical_and, logical_or or logical_xor.");
  return tensor::apply(op, operands);
}

Tensor float_primitive(Op op, const Tensor& x) {
  return compute_in_f32(x, [op](const Tensor& wide) { return apply(op, {wide}); });
}

void require_number(std::string_view function, const Tensor& x) {
  require_argument(x.dtype() != DType::kBool, function, "takes numbers", {x});
}

// On f32.
Tensor exp_f32(const Tensor& x) { return exp2(x * std::numbers::log2e); }

// x to the power of a whole number, by squaring.
Tensor multiply_out(const Tensor& x, int64_t exponent) {
  if (exponent == 0) return constant_like(x, 1);
  if (exponent == 1) return x;
  const Tensor half = multiply_out(x, exponent / 2);
  const Tensor even = half * half;
  return exponent % 2 == 0 ? even : even * x;
}

Tensor pow_number(const Tensor& x, double exponent) {
  if (exponent == 0.5) return sqrt(x);
  if (exponent == -0.5) return rsqrt(x);
  if (exponent == -1) return reciprocal(x);
  if (exponent == std::floor(exponent) && exponent >= 0 && exponent <= 4)
    return compute_in_f32(x, [&](const Tensor& wide) { return multiply_out(wide, static_cast<int64_t>(exponent)); });
  return compute_in_f32(x, [&](const Tensor& wide) { return apply(Op::kPow, {wide, constant_like(wide, exponent)}); });
}

}  // namespace

Tensor add(const Operand& a, const Operand& b) { return binary(Op::kAdd, "add", a, b); }
Tensor sub(const Operand& a, const Operand& b) { return binary(Op::kSub, "sub", a, b); }
Tensor mul(const Operand& a, const Operand& b) { return binary(Op::kMul, "mul", a, b); }
Tensor div(const Operand& a, const Operand& b) { return tensor::apply(Op::kDiv, match_float_operands("div", {a, b})); }

Tensor floor_divide(const Operand& a, const Operand& b) {
  const std::vector<Tensor> operands = match_operands("floor_divide", {a, b});
  const Tensor &x = operands[0], &y = operands[1];
  require_number("floor_divide", x);
  if (is_float(x.dtype())) return floor(x / y);
  const Tensor quotient = apply(Op::kDiv, {x, y});
  if (x.dtype() == DType::kU8) return quotient;
  const Tensor rest = apply(Op::kRem, {x, y});
  return where(logical_and(ne(rest, 0), logical_xor(lt(rest, 0), lt(y, 0))), quotient - 1, quotient);
}

Tensor remainder(const Operand& a, const Operand& b) {
  const std::vector<Tensor> operands = match_operands("remainder", {a, b});
  const Tensor& y = operands[1];
  require_number("remainder", y);
  const Tensor rest = tensor::apply(Op::kRem, operands);
  if (y.dtype() == DType::kU8) return rest;
  return where(logical_and(ne(rest, 0), logical_xor(lt(rest, 0), lt(y, 0))), rest + y, rest);
}

Tensor fmod(const Operand& a, const Operand& b) { return binary(Op::kRem, "fmod", a, b); }

Tensor pow(const Operand& a, const Operand& b) {
  if (!a.is_number() && b.is_number()) {
    const Tensor& x = a.tensor();
    const double exponent = b.number();
    if (is_float(x.dtype()) || exponent != std::floor(exponent)) return pow_number(x, exponent);
    require_number("pow", x);
    require_argument(exponent >= 0, "pow", fmt::format("an integer to the power of {} is no integer", exponent), {x},
                     "Cast the base to a float.");
    return multiply_out(x, static_cast<int64_t>(exponent));
  }
  const std::vector<Tensor> operands = match_operands("pow", {a, b});
  const DType dtype = operands[0].dtype();
  require_argument(is_float(dtype), "pow", "takes a float base when the exponent is a tensor",
                   {operands[0], operands[1]}, "Cast the base to a float.");
  return cast(apply(Op::kPow, {cast(operands[0], DType::kF32), cast(operands[1], DType::kF32)}), dtype);
}

Tensor minimum(const Operand& a, const Operand& b) { return binary(Op::kMin, "minimum", a, b); }
Tensor maximum(const Operand& a, const Operand& b) { return binary(Op::kMax, "maximum", a, b); }

Tensor clamp(const Tensor& x, std::optional<Operand> low, std::optional<Operand> high) {
  require_argument(low || high, "clamp", "takes a lower bound, an upper bound or both", {x});
  const Tensor above = low ? binary(Op::kMax, "clamp", x, *low) : x;
  return high ? binary(Op::kMin, "clamp", above, *high) : above;
}

Tensor clamp_min(const Tensor& x, const Operand& low) { return clamp(x, low, std::nullopt); }
Tensor clamp_max(const Tensor& x, const Operand& high) { return clamp(x, std::nullopt, high); }

Tensor lerp(const Tensor& start, const Tensor& end, const Operand& weight) { return start + weight * (end - start); }

Tensor logaddexp(const Operand& a, const Operand& b) {
  const std::vector<Tensor> operands = match_float_operands("logaddexp", {a, b});
  const Tensor x = cast(operands[0], DType::kF32), y = cast(operands[1], DType::kF32);
  // As a log-sum-exp of two around a constant center, which an infinity cannot be.
  const Tensor largest = maximum(x, y);
  const Tensor center = stop_gradient(where(isfinite(largest), largest, 0.0));
  return cast(log(exp_f32(x - center) + exp_f32(y - center)) + center, operands[0].dtype());
}

Tensor neg(const Tensor& x) {
  require_number("neg", x);
  return apply(Op::kNeg, {x});
}

Tensor abs(const Tensor& x) {
  require_number("abs", x);
  return x.dtype() == DType::kU8 ? x : apply(Op::kAbs, {x});
}

Tensor sign(const Tensor& x) {
  require_number("sign", x);
  const Tensor zero = constant_like(x, 0), positive = where(lt(zero, x), constant_like(x, 1), zero);
  return x.dtype() == DType::kU8 ? positive : where(lt(x, zero), constant_like(x, -1), positive);
}

Tensor square(const Tensor& x) { return x * x; }
Tensor reciprocal(const Tensor& x) { return float_primitive(Op::kRecip, x); }
Tensor sqrt(const Tensor& x) { return float_primitive(Op::kSqrt, x); }
Tensor rsqrt(const Tensor& x) { return float_primitive(Op::kRsqrt, x); }

Tensor exp(const Tensor& x) { return compute_in_f32(x, exp_f32); }
Tensor exp2(const Tensor& x) { return float_primitive(Op::kExp2, x); }

Tensor expm1(const Tensor& x) {
  return compute_in_f32(x, [](const Tensor& wide) {
    // Near 0: 2 t / (1 - t) with t = tanh(x / 2), which cancels nothing.
    const Tensor near = le(abs(wide), 1.0);
    const Tensor t = tanh(where(near, wide, 0.0) * 0.5);
    return where(near, 2.0 * t / (1.0 - t), exp_f32(wide) - 1.0);
  });
}

Tensor log(const Tensor& x) {
  return compute_in_f32(x, [](const Tensor& wide) { return log2(wide) * std::numbers::ln2; });
}

Tensor log2(const Tensor& x) { return float_primitive(Op::kLog2, x); }

Tensor log10(const Tensor& x) {
  return compute_in_f32(x, [](const Tensor& wide) { return log2(wide) * (std::numbers::ln2 / std::numbers::ln10); });
}

Tensor log1p(const Tensor& x) {
  return compute_in_f32(x, [](const Tensor& wide) {
    // Near 0: 2 atanh(s) with s = x / (2 + x), |s| <= 1/7; the series is cut at s^13 (below 1e-12).
    const Tensor near = le(abs(wide), 0.25);
    const Tensor small = where(near, wide, 0.0);
    const Tensor s = small / (small + 2.0), z = s * s;
    Tensor series = z * (1.0 / 11) + 1.0 / 9;
    for (const double divisor : {7.0, 5.0, 3.0, 1.0}) series = series * z + 1.0 / divisor;
    return where(near, 2.0 * s * series, log(where(near, 1.0, wide + 1.0)));
  });
}

Tensor sin(const Tensor& x) { return float_primitive(Op::kSin, x); }
Tensor cos(const Tensor& x) { return float_primitive(Op::kCos, x); }

Tensor tan(const Tensor& x) {
  return compute_in_f32(x, [](const Tensor& wide) { return sin(wide) / cos(wide); });
}

Tensor sinh(const Tensor& x) {
  return compute_in_f32(x, [](const Tensor& wide) {
    const Tensor near = le(abs(wide), 1.0);
    const Tensor t = tanh(where(near, wide, 0.0) * 0.5);
    return where(near, 2.0 * t / (1.0 - t * t), (exp_f32(wide) - exp_f32(-wide)) * 0.5);
  });
}

Tensor cosh(const Tensor& x) {
  return compute_in_f32(x, [](const Tensor& wide) { return (exp_f32(wide) + exp_f32(-wide)) * 0.5; });
}

Tensor tanh(const Tensor& x) { return float_primitive(Op::kTanh, x); }
Tensor erf(const Tensor& x) { return float_primitive(Op::kErf, x); }

Tensor erfc(const Tensor& x) {
  return compute_in_f32(x, [](const Tensor& wide) { return 1.0 - erf(wide); });
}

Tensor floor(const Tensor& x) { return is_float(x.dtype()) ? apply(Op::kFloor, {x}) : x; }
Tensor ceil(const Tensor& x) { return is_float(x.dtype()) ? neg(floor(neg(x))) : x; }

Tensor round(const Tensor& x) {
  if (!is_float(x.dtype())) return x;
  const Tensor below = floor(x), above = below + 1.0, part = x - below;
  const Tensor even = eq(apply(Op::kRem, {below, constant_like(below, 2)}), 0.0);
  const Tensor up = logical_or(gt(part, 0.5), logical_and(eq(part, 0.5), logical_not(even)));
  return where(up, above, below);
}

Tensor trunc(const Tensor& x) { return is_float(x.dtype()) ? where(lt(x, 0.0), ceil(x), floor(x)) : x; }

Tensor frac(const Tensor& x) {
  require_argument(is_float(x.dtype()), "frac", "takes floats", {x});
  return x - trunc(x);
}

}  // namespace causeway::tensor
