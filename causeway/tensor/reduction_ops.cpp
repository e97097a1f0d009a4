#include "causeway/tensor/reduction_ops.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "causeway/graph/op.h"
#include "causeway/tensor/arithmetic_ops.h"
#include "causeway/tensor/comparison_ops.h"
#include "causeway/tensor/shape_ops.h"

namespace causeway::tensor {
namespace {

Tensor with_reduced_axes(const Tensor& reduced, const Shape& shape, const std::vector<int64_t>& axes, bool keepdim) {
  if (!keepdim) return reduced;
  Shape kept = shape;
  for (const int64_t axis : axes) kept[static_cast<size_t>(axis)] = 1;
  return reshape(reduced, kept);
}

Tensor reduce_axes(Op op, const Tensor& x, const std::vector<int64_t>& axes, bool keepdim) {
  if (axes.empty()) return x;
  Attributes attributes;
  attributes.axes = axes;
  return with_reduced_axes(apply(op, {x}, std::move(attributes)), x.shape(), axes, keepdim);
}

// What integer sums and products are made in.
Tensor as_accumulator(const Tensor& x) { return is_float(x.dtype()) ? x : cast(x, DType::kI64); }

Dim reduced_count(const Tensor& x, const std::vector<int64_t>& axes) {
  Dim count(1);
  for (const int64_t axis : axes) count *= x.size(axis);
  return count;
}

void require_elements(std::string_view function, const Tensor& x, const std::vector<int64_t>& axes) {
  for (const int64_t axis : axes)
    require_argument(!x.size(axis).is_constant(0), function, fmt::format("axis {} has no elements", axis), {x});
}

// On f32: divided by the number of elements less `correction`.
Tensor average(const Tensor& sum, const Dim& count, double correction = 0) {
  if (count.is_constant()) return sum * (1 / std::max(0.0, static_cast<double>(count.constant()) - correction));
  return sum / maximum(dimension_scalar(count) - correction, 0.0);
}

// The same order reversed: what turns a minimum into a maximum. Integers have a complement where negation overflows.
Tensor reversed_order(const Tensor& x) { return is_float(x.dtype()) ? neg(x) : bitwise_not(x); }

Tensor bool_as_integer(const Tensor& x) { return x.dtype() == DType::kBool ? cast(x, DType::kI32) : x; }

// Rounded products of halves, of quarters, and so on, along axis 0.
Tensor product_along_first(Tensor x) {
  int64_t count = x.size(0).constant();
  if (count == 0) return constant_tensor(x.dtype(), Shape(x.shape().begin() + 1, x.shape().end()), 1);
  while (count > 1) {
    const int64_t half = count / 2;
    const Tensor product = slice(x, 0, 0, half) * slice(x, 0, half, 2 * half);
    x = count % 2 == 0 ? product : cat({product, slice(x, 0, 2 * half)}, 0);
    count = half + count % 2;
  }
  return select(x, 0, 0);
}

// max(x), or 0 where that is infinite; a constant for gradients, since exp(x - center) does not depend on it.
Tensor softmax_center(const Tensor& x, const std::vector<int64_t>& axes) {
  const Tensor largest = amax(x, axes, true);
  return stop_gradient(where(isfinite(largest), largest, 0.0));
}

}  // namespace

Tensor sum(const Tensor& x, const Axes& axes, bool keepdim) {
  return reduce_axes(Op::kReduceSum, as_accumulator(x), resolve_axes("sum", x, axes), keepdim);
}

Tensor mean(const Tensor& x, const Axes& axes, bool keepdim) {
  const std::vector<int64_t> resolved = resolve_axes("mean", x, axes);
  return compute_in_f32(x, [&](const Tensor& wide) {
    return average(reduce_axes(Op::kReduceSum, wide, resolved, keepdim), reduced_count(x, resolved));
  });
}

Tensor prod(const Tensor& x, const Axes& axes, bool keepdim) {
  const std::vector<int64_t> resolved = resolve_axes("prod", x, axes);
  require_argument(reduced_count(x, resolved).is_constant(), "prod", "takes axes of constant size", {x});
  if (resolved.empty()) return as_accumulator(x);
  // The reduced axes first, as one.
  std::vector<int64_t> order = resolved;
  Shape merged = {reduced_count(x, resolved)};
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (std::binary_search(resolved.begin(), resolved.end(), i)) continue;
    order.push_back(i);
    merged.push_back(x.size(i));
  }
  const Tensor accumulator = is_float(x.dtype()) ? cast(x, DType::kF32) : cast(x, DType::kI64);
  const Tensor product = product_along_first(reshape(permute(accumulator, order), merged));
  return with_reduced_axes(is_float(x.dtype()) ? cast(product, x.dtype()) : product, x.shape(), resolved, keepdim);
}

Tensor var(const Tensor& x, const Axes& axes, double correction, bool keepdim) {
  const std::vector<int64_t> resolved = resolve_axes("var", x, axes);
  return compute_in_f32(x, [&](const Tensor& wide) {
    if (resolved.empty()) return average(wide - wide, 1, correction);
    const Tensor centered = wide - mean(wide, resolved, true);
    return average(reduce_axes(Op::kReduceSum, centered * centered, resolved, keepdim), reduced_count(x, resolved),
                   correction);
  });
}

Tensor std(const Tensor& x, const Axes& axes, double correction, bool keepdim) {
  return compute_in_f32(x, [&](const Tensor& wide) { return sqrt(var(wide, axes, correction, keepdim)); });
}

Tensor amax(const Tensor& x, const Axes& axes, bool keepdim) {
  const std::vector<int64_t> resolved = resolve_axes("amax", x, axes);
  require_elements("amax", x, resolved);
  return cast(reduce_axes(Op::kReduceMax, bool_as_integer(x), resolved, keepdim), x.dtype());
}

Tensor amin(const Tensor& x, const Axes& axes, bool keepdim) {
  const std::vector<int64_t> resolved = resolve_axes("amin", x, axes);
  require_elements("amin", x, resolved);
  const Tensor reversed = reversed_order(bool_as_integer(x));
  return cast(reversed_order(reduce_axes(Op::kReduceMax, reversed, resolved, keepdim)), x.dtype());
}

Tensor any(const Tensor& x, const Axes& axes, bool keepdim) {
  const Tensor truth = cast(x.dtype() == DType::kBool ? x : ne(x, 0), DType::kI32);
  return gt(reduce_axes(Op::kReduceMax, truth, resolve_axes("any", x, axes), keepdim), 0);
}

Tensor all(const Tensor& x, const Axes& axes, bool keepdim) {
  const Tensor falsehood = x.dtype() == DType::kBool ? logical_not(x) : eq(x, 0);
  return logical_not(any(falsehood, Axes(resolve_axes("all", x, axes)), keepdim));
}

Tensor norm(const Tensor& x, double p, const Axes& axes, bool keepdim) {
  require_argument(p >= 1, "norm", fmt::format("takes p of at least 1, not {}", p), {x});
  return compute_in_f32(x, [&](const Tensor& wide) {
    if (p == 1) return sum(abs(wide), axes, keepdim);
    if (p == std::numeric_limits<double>::infinity()) return amax(abs(wide), axes, keepdim);
    const Tensor total = sum(p == 2 ? wide * wide : pow(abs(wide), p), axes, keepdim);
    const Tensor zero = eq(total, 0.0), safe = where(zero, 1.0, total);
    return where(zero, 0.0, p == 2 ? sqrt(safe) : pow(safe, 1 / p));
  });
}

Tensor logsumexp(const Tensor& x, const Axes& axes, bool keepdim) {
  const std::vector<int64_t> resolved = resolve_axes("logsumexp", x, axes);
  return compute_in_f32(x, [&](const Tensor& wide) {
    if (resolved.empty()) return wide;
    const Tensor center = softmax_center(wide, resolved);
    const Tensor result = log(reduce_axes(Op::kReduceSum, exp(wide - center), resolved, true)) + center;
    return keepdim ? result : squeeze(result, resolved);
  });
}

Tensor argmax(const Tensor& x, std::optional<int64_t> axis, bool keepdim) {
  if (!axis) {
    const Tensor index = argmax(reshape(x, {-1}), 0);
    return keepdim ? reshape(index, Shape(x.shape().size(), Dim(1))) : index;
  }
  const std::vector<int64_t> resolved = {static_cast<int64_t>(resolve_axis("argmax", x, *axis))};
  require_elements("argmax", x, resolved);
  return reduce_axes(Op::kArgmax, bool_as_integer(x), resolved, keepdim);
}

Tensor argmin(const Tensor& x, std::optional<int64_t> axis, bool keepdim) {
  return argmax(reversed_order(bool_as_integer(x)), axis, keepdim);
}

TopK topk(const Tensor& x, int64_t k, int64_t axis, bool largest) {
  const auto at = static_cast<int64_t>(resolve_axis("topk", x, axis));
  require_argument(x.dtype() != DType::kBool, "topk", "takes numbers", {x});
  require_argument(k >= 1 && (!x.size(at).is_constant() || k <= x.size(at).constant()), "topk",
                   fmt::format("{} elements of an axis of size {}", k, x.size(at).text()), {x});
  const Tensor last = movedim(largest ? x : reversed_order(x), at, -1);
  Attributes attributes;
  attributes.count = k;
  const std::vector<Tensor> outputs = apply_all(Op::kTopk, std::span(&last, 1), std::move(attributes));
  return {movedim(largest ? outputs[0] : reversed_order(outputs[0]), -1, at), movedim(outputs[1], -1, at)};
}

Tensor cumsum(const Tensor& x, int64_t axis) {
  Attributes attributes;
  attributes.axes = {static_cast<int64_t>(resolve_axis("cumsum", x, axis))};
  if (!is_float(x.dtype())) return apply(Op::kCumsum, {cast(x, DType::kI64)}, std::move(attributes));
  return compute_in_f32(x, [&](const Tensor& wide) { return apply(Op::kCumsum, {wide}, attributes); });
}

Tensor softmax(const Tensor& x, int64_t axis) {
  const auto at = static_cast<int64_t>(resolve_axis("softmax", x, axis));
  return compute_in_f32(x, [&](const Tensor& wide) {
    const Tensor powers = exp(wide - softmax_center(wide, {at}));
    return powers / sum(powers, at, true);
  });
}

Tensor log_softmax(const Tensor& x, int64_t axis) {
  const auto at = static_cast<int64_t>(resolve_axis("log_softmax", x, axis));
  return compute_in_f32(x, [&](const Tensor& wide) {
    const Tensor centered = wide - softmax_center(wide, {at});
    return centered - log(sum(exp(centered), at, true));
  });
}

}  // namespace causeway::tensor
