// How much of an attention its mask leaves, by analysing the mask's own graph.
//
// What depends on captured tensors is not known here: each such condition may come out either way. The mask is then
// taken as two masks of positions alone, one that attends wherever it could and one that attends only where it must:
// the first of a conjunction of a causal mask and a document mask is the causal mask. Each is counted exactly: the
// square of queries and keys is cut into ever smaller rectangles until interval arithmetic says that a rectangle
// attends as a whole or not at all, and the small rest is evaluated pair by pair.
#pragma once

#include <cstdint>

#include "causeway/graph/graph.h"

namespace causeway::passes {

// Counted in (batch, head, query, key), of batch * heads * queries * keys.
struct AttendedPairs {
  double at_least = 0;
  double at_most = 0;
  // The mask's boundary is too long to be followed (every second key, say, of very long sequences): the counts are
  // those of evenly spaced rows of queries, scaled.
  bool sampled = false;

  // Equal but where data decides.
  bool known() const { return at_least == at_most; }
};

// What was counted is remembered while the process lives, for masks of equal text.
AttendedPairs count_attended_pairs(const AttentionSpec& spec, int64_t batch, int64_t heads, int64_t queries,
                                   int64_t keys);

}  // namespace causeway::passes
