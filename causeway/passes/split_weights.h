// Weights in f32 whose memory has the upper halves of all elements first, which are what GEMMs read, and the lower
// halves behind them: a GEMM in bf16 reads the weight as it lies, and nothing is cast and kept beside it.
//
// The upper half is the element rounded to bf16, ties away from zero (a cast rounds them to even); the lower half, an
// integer of 16 bits, is what has to be added to the upper half's bits, followed by 16 zeros. Together they are the
// element to the bit, but for NaNs, which stay NaNs.
#pragma once

#include <vector>

#include "causeway/graph/graph.h"

namespace causeway::passes {

struct SplitWeights {
  Graph graph;
  std::vector<size_t> lower;  // for each input behind those of the old graph, whose lower halves it has
};

// `split` says of which of the graph's inputs, of f32. They become inputs of bf16, and what is assigned to them is
// assigned in two halves. Whatever reads them has both halves, but where GEMMs are in bf16 (`narrow_gemms`): then
// operands of a dot or a linear_cross_entropy that are such an input, through reshapes, slices and permutes at most,
// are the upper halves, cast back to f32. What mixed_precision() makes of that has no cast left.
SplitWeights split_weights(const Graph& graph, const std::vector<bool>& split, bool narrow_gemms);

}  // namespace causeway::passes
