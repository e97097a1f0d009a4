// Random numbers from a key: a function of (seed, step, op, element), never of hidden state. A key is an i64 tensor
// {seed, step}; each op of a trace draws from a stream of its own, so one key serves a whole training step, and the
// next step has another key. Generator: Philox-4x32-10 (Salmon et al., SC11). No gradient passes.
#pragma once

#include "causeway/tensor/operand.h"

namespace causeway::tensor {

Tensor random_key(int64_t seed, int64_t step = 0);

// 32 random bits an element, i32, of a stream that the caller chooses: the same numbers in every trace.
Tensor random_bits(const Shape& shape, const Tensor& key, int64_t stream);
// Uniform in [0, 1): multiples of 2^-24 in f32.
Tensor rand(const Shape& shape, const Tensor& key);
// Normal with mean 0 and variance 1 (Box and Muller, 1958), f32; at most 5.8 from 0.
Tensor randn(const Shape& shape, const Tensor& key);
// Uniform in low, ..., high - 1, for a range below 2^31; the bias is below 2^-32 times the range.
Tensor randint(int64_t low, int64_t high, const Shape& shape, const Tensor& key, DType dtype = DType::kI64);
// True with the given probability of each element (resolution 2^-24).
Tensor bernoulli(const Tensor& probability, const Tensor& key);

// Each element is 0 with probability p (resolution 2^-32), else divided by 1 - p. p = 0 draws nothing.
Tensor dropout(const Tensor& x, double p, const Tensor& key);

}  // namespace causeway::tensor
