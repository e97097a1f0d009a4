#include "causeway/optimizer/stochastic_rounding.h"

#include "causeway/graph/op.h"
#include "causeway/tensor/ops.h"

namespace causeway::optimizer {
namespace {

Tensor with_bits_of(const Tensor& x, DType dtype) {
  Attributes attributes;
  attributes.dtype = dtype;
  return apply(Op::kBitcast, {x}, std::move(attributes));
}

}  // namespace

Tensor rounding_bits(const ParameterUpdate& of, RoundingStream stream) {
  const Tensor seed = full({Dim(1)}, of.seed, DType::kI64);
  const Tensor key = cat({seed, reshape(cast(of.step, DType::kI64), {Dim(1)})}, 0);
  return random_bits(of.parameter.tensor.shape(), key, static_cast<int64_t>(stream));
}

Tensor lower_16_bits(const Tensor& bits) { return bitwise_and(bits, 0xffff); }

Tensor upper_16_bits(const Tensor& bits) { return bitwise_and(bitwise_right_shift(bits, 16), 0xffff); }

Tensor stochastically_rounded_to_bf16(const Tensor& x, const Tensor& random) {
  constexpr int64_t kUpperBits = -0x10000;
  const Tensor rounded = with_bits_of(bitwise_and(with_bits_of(x, DType::kI32) + random, kUpperBits), DType::kF32);
  // A GPU's NaN has all bits of its mantissa, and the sum would be -0.
  return where(eq(x, x), rounded, x);
}

}  // namespace causeway::optimizer
