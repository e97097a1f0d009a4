// GEMMs of weights and activations in 8-bit floats: after mixed_precision, every dot of two matrices whose sizes are
// multiples of f8_multiple gets operands of 8 bits, laid out along what is summed over, as matrix instructions want
// them; sums are f32. Scales are taken from the largest magnitude at that moment, and are powers of two: they change no
// bit of a result, which can be rounded before it is scaled. Attention and the loss's GEMM with the vocabulary stay
// as they are.
#pragma once

#include "causeway/device/preferred_sizes.h"
#include "causeway/graph/graph.h"

namespace causeway::passes {

enum class Fp8Scales {
  kNone,  // no GEMMs in 8 bits
  // One for each operand. Activations and weights become f8e4m3, gradients of activations f8e5m2 ("FP8 Formats for Deep
  // Learning", Micikevicius et al., 2022).
  kTensor,
  // One for each 128 of what is summed over and each line of a gradient or of a GEMM's first operand, or 128 lines
  // of others: weights, and activations that are multiplied with a gradient. All become f8e4m3 ("DeepSeek-V3 Technical
  // Report", section 3.3, where those activations have scales for each line). GEMMs are scaled_dot or, where
  // PreferredSizes::f8_blocks is not set, dots of bf16 operands that are the scaled 8-bit numbers. Matrices that do not
  // consist of whole blocks are scaled as by kTensor.
  kBlock,
};

Graph fp8_gemms(const Graph& graph, Fp8Scales scales, const PreferredSizes& sizes);

}  // namespace causeway::passes
