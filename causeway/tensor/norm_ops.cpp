#include "causeway/tensor/norm_ops.h"

#include <algorithm>

#include "causeway/tensor/arithmetic_ops.h"
#include "causeway/tensor/comparison_ops.h"
#include "causeway/tensor/reduction_ops.h"
#include "causeway/tensor/shape_ops.h"

namespace causeway::tensor {
namespace {

// The last axes, as many as `weight` has, whose sizes must agree.
std::vector<int64_t> normalized_axes(std::string_view function, const Tensor& x, const Tensor& weight) {
  const int64_t count = weight.defined() ? weight.rank() : 1;
  require_argument(
      count >= 1 && count <= x.rank() &&
          (!weight.defined() || std::equal(weight.shape().begin(), weight.shape().end(), x.shape().end() - count)),
      function, "takes a weight shaped as the last axes of its first argument", {x, weight});
  std::vector<int64_t> axes;
  for (int64_t i = x.rank() - count; i < x.rank(); ++i) axes.push_back(i);
  return axes;
}

Tensor standardize(const Tensor& x, const std::vector<int64_t>& axes, double eps) {
  const Tensor centered = x - mean(x, axes, true);
  return centered * rsqrt(mean(centered * centered, axes, true) + eps);
}

// x weight + bias in f32, with the vectors in the shape `as`.
Tensor scale_and_shift(Tensor x, const Tensor& weight, const Tensor& bias, const Shape& as) {
  if (weight.defined()) x = x * cast(reshape(weight, as), DType::kF32);
  if (bias.defined()) x = x + cast(reshape(bias, as), DType::kF32);
  return x;
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  const std::vector<int64_t> axes = normalized_axes("layer_norm", x, weight.defined() ? weight : bias);
  require_argument(!weight.defined() || !bias.defined() || weight.shape() == bias.shape(), "layer_norm",
                   "takes a weight and a bias of one shape", {x, weight, bias});
  const Shape tail(x.shape().begin() + axes.front(), x.shape().end());
  return compute_in_f32(
      x, [&](const Tensor& wide) { return scale_and_shift(standardize(wide, axes, eps), weight, bias, tail); });
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  const std::vector<int64_t> axes = normalized_axes("rms_norm", x, weight);
  const Shape tail(x.shape().begin() + axes.front(), x.shape().end());
  return compute_in_f32(x, [&](const Tensor& wide) {
    return scale_and_shift(wide * rsqrt(mean(wide * wide, axes, true) + eps), weight, {}, tail);
  });
}

Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias, double eps) {
  require_argument(x.rank() >= 2 && groups >= 1 && x.size(1).divide_exactly(groups).has_value(), "group_norm",
                   fmt::format("takes x [N, C, ...] with C divisible by {} groups", groups), {x});
  for (const Tensor& vector : {weight, bias})
    require_argument(!vector.defined() || vector.shape() == Shape{x.size(1)}, "group_norm",
                     "takes a weight and a bias [C]", {x, vector});
  Shape per_channel(x.shape().size(), Dim(1));
  per_channel[1] = x.size(1);
  return compute_in_f32(x, [&](const Tensor& wide) {
    const Tensor grouped = unflatten(wide, 1, {groups, -1});
    std::vector<int64_t> axes;
    for (int64_t i = 2; i < grouped.rank(); ++i) axes.push_back(i);
    return scale_and_shift(reshape(standardize(grouped, axes, eps), x.shape()), weight, bias, per_channel);
  });
}

Tensor normalize(const Tensor& x, double p, int64_t axis, double eps) {
  return compute_in_f32(x, [&](const Tensor& wide) { return wide / maximum(norm(wide, p, axis, true), eps); });
}

Tensor cosine_similarity(const Tensor& a, const Tensor& b, int64_t axis, double eps) {
  const std::vector<Tensor> pair = match_float_operands("cosine_similarity", {a, b});
  const Tensor x = cast(pair[0], DType::kF32), y = cast(pair[1], DType::kF32);
  const Tensor lengths = maximum(norm(x, 2, axis), eps) * maximum(norm(y, 2, axis), eps);
  return cast(sum(x * y, axis) / lengths, pair[0].dtype());
}

}  // namespace causeway::tensor
