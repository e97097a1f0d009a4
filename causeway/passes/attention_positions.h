// Attention of a part of its batch, heads or queries: score and mask are functions of whole positions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "causeway/graph/graph.h"

namespace causeway::passes {

// Whether score or mask depend on an argument (0: batch, 1: head, 2: query).
bool reads_position(const AttentionSpec& spec, size_t position);

// The tensors captured last, i32 [] each, are added to these arguments of score and mask, in this order.
AttentionSpec with_position_offsets(const AttentionSpec& spec, const std::vector<size_t>& positions);

// The mask of what with_position_offsets() gave, with that of the queries known, to be analysed; its input is read no
// more. Null where there is none.
std::shared_ptr<const Graph> mask_at_query_offset(const AttentionSpec& spec, int64_t offset);

}  // namespace causeway::passes
