// GEMMs of f32 values that may round their operands to tf32: the attribute is set on every dot of f32 operands, and
// on attention, whose kernels then round what they multiply. How a device rounds: kernels/gpu/tf32.h.
#pragma once

#include "causeway/graph/graph.h"

namespace causeway::passes {

// `along_k` (PreferredSizes::tf32_along_k): an operand that does not lie along what is summed over becomes a
// permutation that does, one for all GEMMs that read it so. Kernels copy it where that is worth its time, and
// otherwise read through it.
Graph tf32_gemms(const Graph& graph, bool along_k);

}  // namespace causeway::passes
