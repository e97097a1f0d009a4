#include "causeway/tensor/random_ops.h"

#include <cmath>
#include <numbers>

#include "causeway/graph/op.h"
#include "causeway/tensor/arithmetic_ops.h"
#include "causeway/tensor/comparison_ops.h"

namespace causeway::tensor {
namespace {

// As random_bits(), of the next stream unless one is given.
Tensor bits_of_stream(std::string_view function, const Shape& shape, const Tensor& key,
                      std::optional<int64_t> stream = std::nullopt) {
  require_argument(key.type() == TensorType{DType::kI64, {2}}, function, "takes a key, an i64[2] of seed and step",
                   {key}, "Make one with random_key(seed, step).");
  Attributes attributes;
  attributes.shape = shape;
  attributes.stream = stream ? *stream : next_random_stream();
  return apply(Op::kRandomBits, {key}, std::move(attributes));
}

// The upper 24 bits as a whole number in [0, 2^24).
Tensor upper_bits(const Tensor& bits) { return cast(bitwise_and(bitwise_right_shift(bits, 8), 0xffffff), DType::kF32); }

}  // namespace

Tensor random_key(int64_t seed, int64_t step) {
  const int64_t words[] = {seed, step};
  return Tensor::from_bytes(std::as_bytes(std::span(words)), {2}, DType::kI64);
}

Tensor random_bits(const Shape& shape, const Tensor& key, int64_t stream) {
  return bits_of_stream("random_bits", shape, key, stream);
}

Tensor rand(const Shape& shape, const Tensor& key) {
  return upper_bits(bits_of_stream("rand", shape, key)) * std::ldexp(1.0, -24);
}

Tensor randn(const Shape& shape, const Tensor& key) {
  // The radius from a number in (0, 1], whose logarithm is finite.
  const Tensor radius = (upper_bits(bits_of_stream("randn", shape, key)) + 1.0) * std::ldexp(1.0, -24);
  const Tensor angle = upper_bits(bits_of_stream("randn", shape, key)) * (2 * std::numbers::pi * std::ldexp(1.0, -24));
  return sqrt(-2.0 * log(radius)) * cos(angle);
}

Tensor randint(int64_t low, int64_t high, const Shape& shape, const Tensor& key, DType dtype) {
  const int64_t range = high - low;
  require_argument(range >= 1 && range < (int64_t{1} << 31), "randint",
                   fmt::format("there is no range of 1 to 2^31 - 1 numbers from {} to below {}", low, high));
  const auto fits = [&](int64_t bound) {
    return round_to_dtype(dtype, static_cast<double>(bound)) == static_cast<double>(bound);
  };
  require_argument(is_integer(dtype) && fits(low) && fits(high - 1), "randint",
                   fmt::format("{} to {} does not fit in {}", low, high - 1, dtype_name(dtype)));
  const Tensor bits = bitwise_and(cast(bits_of_stream("randint", shape, key), DType::kI64), int64_t{0xffffffff});
  return cast(bitwise_right_shift(bits * range, 32) + low, dtype);
}

Tensor bernoulli(const Tensor& probability, const Tensor& key) {
  return lt(rand(probability.shape(), key), cast(probability, DType::kF32));
}

Tensor dropout(const Tensor& x, double p, const Tensor& key) {
  require_argument(p >= 0 && p <= 1, "dropout", fmt::format("a probability of {} is not within [0, 1]", p), {x});
  require_argument(is_float(x.dtype()), "dropout", "takes floats", {x});
  if (p == 0) return x;
  if (p == 1) return x * 0.0;
  // The bits are uniform over the i32, so those below a threshold make up a share p of them.
  const double below = std::round(std::ldexp(p, 32)) - std::ldexp(1.0, 31);
  const Tensor kept = ge(bits_of_stream("dropout", x.shape(), key), static_cast<int64_t>(below));
  return where(kept, x * (1 / (1 - p)), 0.0);
}

}  // namespace causeway::tensor
