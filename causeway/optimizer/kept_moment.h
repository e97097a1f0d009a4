// How an optimizer keeps a running average from step to step: optimizer.moments is f32, bf16 or 8bit.
//
// bf16: rounded to nearest even, half the memory.
//
// 8bit, of matrices whose last dimension has a divisor that is a power of two and at least kSmallestBlock: a byte for
// each element and an f32 scale for each block of neighbours in a row, as many as the greatest such divisor up to
// optimizer.moment_block. The scale is the block's largest magnitude, and a byte the nearest of 256 values from -1 to 1
// (or 0 to 1) times it: the dynamic code of Dettmers et al., 8-bit Optimizers via Block-wise Quantization, 2021
// (arXiv 2110.02861), as bitsandbytes has it. Blocks lie within rows, where bitsandbytes has them in the flattened
// tensor, so that they do not depend on how a mesh cuts rows. What has no such block (norms, biases) is kept in f32.
//
// Of an average of squares the byte is of its root, which has half the decades, and what is not 0 is not rounded to 0:
// an element that is divided by a root of 0 would take a step without bounds.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "causeway/optimizer/optimizer.h"
#include "causeway/tensor/tensor.h"

namespace causeway::optimizer {

enum class Average : uint8_t { kOfValues, kOfSquares };

// optimizer.moments and optimizer.moment_block: for the keys of an optimizer.
std::vector<OptimizerKey> moment_keys();

// What is kept of each parameter for the average of that name; of all parameters as many.
std::vector<OptimizerState> moment_states(const std::string& name, const OptimizerConfig& config);

// The average, f32 of the parameter's shape, of the tensors that moment_states() gives for one parameter.
Tensor kept_moment(std::span<const Tensor> kept, Average average);
// And back: `value` as `before` is kept.
std::vector<Tensor> keep_moment(const Tensor& value, std::span<const Tensor> before, Average average);

// Of 8bit. How many neighbours of a parameter share a scale; 0: they are kept in f32.
inline constexpr int64_t kSmallestBlock = 32;
int64_t moment_block(const Parameter& parameter, const OptimizerConfig& config);

// The code of bytes alone: to u8 from f32 within [-1, 1], or [0, 1] of kOfSquares, and back.
Tensor encode_moment(const Tensor& x, Average average);
Tensor decode_moment(const Tensor& codes, Average average);

}  // namespace causeway::optimizer
