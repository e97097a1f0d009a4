#include "causeway/tensor/position_ops.h"

#include <bit>
#include <cmath>
#include <numbers>

#include "causeway/tensor/arithmetic_ops.h"
#include "causeway/tensor/shape_ops.h"

namespace causeway::tensor {
namespace {

double stretched(double frequency, const RotaryScaling& scaling) {
  const double turns = scaling.original_context * frequency / (2 * std::numbers::pi);
  if (turns > scaling.high_frequency_factor) return frequency;
  if (turns < scaling.low_frequency_factor) return frequency / scaling.factor;
  const double share =
      (turns - scaling.low_frequency_factor) / (scaling.high_frequency_factor - scaling.low_frequency_factor);
  return (1 - share) * frequency / scaling.factor + share * frequency;
}

}  // namespace

Tensor rotary_frequencies(int64_t dims, double theta, std::optional<RotaryScaling> scaling) {
  require_argument(dims >= 2 && dims % 2 == 0 && theta > 0, "rotary_frequencies",
                   fmt::format("takes an even number of dimensions and a positive theta, not {} and {}", dims, theta));
  std::vector<double> frequencies;
  for (int64_t i = 0; i < dims / 2; ++i) {
    const double frequency = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(dims));
    frequencies.push_back(scaling ? stretched(frequency, *scaling) : frequency);
  }
  return Tensor::from_values(frequencies, {dims / 2});
}

Tensor rotary_embedding(const Tensor& x, const Tensor& frequencies, const Tensor& positions) {
  require_argument(x.rank() >= 3 && frequencies.rank() == 1, "rotary_embedding",
                   "takes x [..., T, H, D] and frequencies [R / 2]", {x, frequencies});
  const Dim &pairs = frequencies.size(0), &width = x.size(-1);
  require_argument(pairs.is_constant() && width.is_constant() && 2 * pairs.constant() <= width.constant(),
                   "rotary_embedding", "takes at most half as many frequencies as the last axis has elements",
                   {x, frequencies});
  const Dim& length = x.size(-3);
  const Tensor where_at = positions.defined() ? positions : index_tensor(DType::kI32, {length}, 0);
  const Shape leading(x.shape().begin(), x.shape().end() - 2);
  require_argument(where_at.shape() == Shape{length} || where_at.shape() == leading, "rotary_embedding",
                   "takes positions [T] or [..., T]", {x, where_at});
  const Tensor angle = unsqueeze(unsqueeze(cast(where_at, DType::kF32), -1) * frequencies, -2);
  const Tensor cosine = cos(angle), sine = sin(angle);
  return compute_in_f32(x, [&](const Tensor& wide) {
    const Tensor first = slice(wide, -1, 0, pairs), second = slice(wide, -1, pairs, pairs + pairs);
    std::vector<Tensor> parts = {first * cosine - second * sine, second * cosine + first * sine};
    if (pairs + pairs != width) parts.push_back(slice(wide, -1, pairs + pairs));
    return cat(parts, -1);
  });
}

Tensor alibi_slopes(int64_t heads, double max_bias) {
  require_argument(heads >= 1, "alibi_slopes", fmt::format("{} heads", heads));
  const auto slots = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(heads)));
  const auto slope = [&](int64_t i) {
    return std::exp2(-max_bias * static_cast<double>(i + 1) / static_cast<double>(slots));
  };
  std::vector<double> slopes;
  if (slots != heads)
    for (int64_t i = 1; i < slots; i += 2) slopes.push_back(slope(i));
  for (int64_t i = 0; static_cast<int64_t>(slopes.size()) < heads; i += slots == heads ? 1 : 2)
    slopes.push_back(slope(i));
  return Tensor::from_values(slopes, {heads});
}

}  // namespace causeway::tensor
