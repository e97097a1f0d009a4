// How an optimizer keeps a running average from step to step: optimizer.moments is f32, bf16 or 8bit.
//
// bf16: half the memory.
//
// 8bit, of matrices whose last dimension has a divisor that is a power of two and at least kSmallestBlock: a byte for
// each element and an f32 scale for each block of neighbours in a row, as many as the greatest such divisor up to
// optimizer.moment_block. The scale is the block's largest magnitude, and a byte the nearest of 256 values from -1 to 1
// (or 0 to 1) times it: the dynamic code of Dettmers et al., 8-bit Optimizers via Block-wise Quantization, 2021
// (arXiv 2110.02861), as bitsandbytes has it. Blocks lie within rows, where bitsandbytes has them in the flattened
// tensor, so that they do not depend on how a mesh cuts rows. What has no such block (norms, biases) is kept in f32.
//
// Both are rounded to nearest (bf16 to even), or with optimizer.moment_rounding=stochastic up or down at random, so
// that the mean is the value: of bytes within a decade of the code, at whose ends there is one neighbour. The random
// numbers are 16 bits of Philox by the run's seed, the parameter's name, the step and the element.
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

// optimizer.moments, optimizer.moment_block and optimizer.moment_rounding: for the keys of an optimizer.
std::vector<OptimizerKey> moment_keys();

// Which of these keys is not its default and has no effect, because the averages are not kept in that form; "": none.
std::string moment_key_without_effect(const OptimizerConfig& config);

// What is kept of each parameter for the average of that name; of all parameters as many.
std::vector<OptimizerState> moment_states(const std::string& name, const OptimizerConfig& config);

// The average, f32 of the parameter's shape, of the tensors that moment_states() gives for one parameter.
Tensor kept_moment(std::span<const Tensor> kept, Average average);
// And back: `value` as `before` is kept. `random` is what random_16_bits() gives, undefined to round to nearest.
std::vector<Tensor> keep_moment(const Tensor& value, std::span<const Tensor> before, Average average,
                                const Tensor& random);

// Random whole numbers of 16 bits, i32 of the parameter's shape; undefined where nothing is rounded by them.
Tensor random_16_bits(const ParameterUpdate& of, const OptimizerConfig& config, Average average);

// Of 8bit. How many neighbours of a parameter share a scale; 0: they are kept in f32.
inline constexpr int64_t kSmallestBlock = 32;
int64_t moment_block(const Parameter& parameter, const OptimizerConfig& config);

// The code of bytes alone: to u8 from f32 within [-1, 1], or [0, 1] of kOfSquares, and back. `random` as keep_moment()
// takes it.
Tensor encode_moment(const Tensor& x, Average average, const Tensor& random = {});
Tensor decode_moment(const Tensor& codes, Average average);

}  // namespace causeway::optimizer
