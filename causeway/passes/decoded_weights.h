// Weights that are held in fewer bits than they are multiplied in: codes of a byte or less an element, and scales
// (QLoRA: Dettmers et al., arXiv 2305.14314). What decodes them is elementwise arithmetic; its result is as large as
// weights that are not coded, so it is in memory only while one node reads it.
#pragma once

#include <vector>

#include "causeway/graph/graph.h"

namespace causeway::passes {

// By node: what follows from inputs of one byte an element (u8, f8e4m3, f8e5m2) that are given no new value, by
// elementwise ops, movement, lookups and gathers over ranks, together with constants, positions and other inputs that
// are given none. Not the inputs themselves.
std::vector<bool> find_decoded_weights(const Graph& graph);

// Where a GEMM reads decoded weights: every node that reads some decodes them for itself, right before it, in the
// forward pass and again in the backward one. eliminate_common_subexpressions must not run afterwards.
Graph decode_weights_at_use(const Graph& graph);

}  // namespace causeway::passes
