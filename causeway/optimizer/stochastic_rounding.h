// Rounding to bf16 up or down at random, so that the mean is the value. The random numbers are Philox by the run's
// seed, the parameter's name, the step and the element's index in the whole parameter: the same on every mesh and
// device, and after a checkpoint.
#pragma once

#include <cstdint>

#include "causeway/optimizer/optimizer.h"
#include "causeway/tensor/tensor.h"

namespace causeway::optimizer {

// Who draws them: streams of a step are independent.
enum class RoundingStream : int64_t { kMoments = 0, kWeights = 1 };

// 32 of them an element, i32 of the parameter's shape. The lower and the upper 16 serve two tensors.
Tensor rounding_bits(const ParameterUpdate& of, RoundingStream stream);
Tensor lower_16_bits(const Tensor& bits);
Tensor upper_16_bits(const Tensor& bits);

// One of the two neighbours of x in bf16, as f32: the one farther from 0 by the share of the way to it. `random`: from
// 0 to 2^16 - 1, i32. NaN stays NaN.
Tensor stochastically_rounded_to_bf16(const Tensor& x, const Tensor& random);

}  // namespace causeway::optimizer
