// Sums of GEMMs that are each rounded before they are added, as the gradients that queries, keys and values, or the
// two matrices of a gated feed-forward layer, send back to what they were computed from: added up in f32 and rounded
// once. Where an axis of a mesh cuts what the GEMMs run over, a rank has terms of each of them, and what is rounded
// has to be added up over the ranks first: one exchange in place of one for each GEMM. Values change by roundings
// that are left out.
#pragma once

#include "causeway/graph/graph.h"

namespace causeway::passes {

// GEMMs of groups of rows are left as they are: their kernels add nothing to others.
// Each GEMM is stored in f32 where it was stored rounded, but for the last, which is added to the others. `graph` is
// of whole values.
Graph sums_of_gemms(const Graph& graph);

}  // namespace causeway::passes
