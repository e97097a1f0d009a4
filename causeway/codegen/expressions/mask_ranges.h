// What a mask function lets through of a whole block, from the ranges of its positions (kernels/mask_ranges.h).
#pragma once

#include <functional>
#include <string>

#include "causeway/graph/graph.h"

namespace causeway::codegen {

// `Range mask_range(int64_t b, int64_t h, Range t, Range s) const`: of all those queries and keys the truths that the
// mask can have, at least. Of captured tensors of integers what is gathered along one axis is looked at; what else is
// read, and what is not an integer, may be anything. `mask`: inputs are batch, head, query, key (i32 scalars), then
// captured tensors. `pointer`: to the elements of such an input; `size`: of an axis.
std::string mask_range_function(const Graph& mask, const std::function<std::string(Value)>& pointer,
                                const std::function<std::string(const Dim&)>& size);

}  // namespace causeway::codegen
