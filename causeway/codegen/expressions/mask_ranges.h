// What a mask function lets through of a whole block, from the ranges of its positions (kernels/mask_ranges.h).
#pragma once

#include <string>

#include "causeway/graph/graph.h"

namespace causeway::codegen {

// `Range mask_range(int64_t b, int64_t h, Range t, Range s) const`: of all those queries and keys the truths that the
// mask can have, at least. The text asks nothing of memory: what the mask reads of captured tensors, and what is not an
// integer, may be anything. `mask`: inputs are batch, head, query, key (i32 scalars), then captured tensors.
std::string mask_range_function(const Graph& mask);

}  // namespace causeway::codegen
