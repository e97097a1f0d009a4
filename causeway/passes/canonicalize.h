// Rewrites each node to its simplest equal form, so that later stages meet one way of saying a thing:
//   - ops on constants (which are splats) fold, and movements of constants are constants; the second operand of a
//     commutative op is the constant one;
//   - identities go: x + 0, x * 1, x - 0, x / 1, x * 0 and x - x (integers only: floats may be NaN), double negation,
//     select with a constant or irrelevant condition, casts through a type that loses nothing;
//   - chains of reshape, permute, broadcast, slice and reduce_sum merge; a slice of a pad or concat that hits exactly
//     one part is that part; a permute or broadcast that only moves or adds dimensions of size 1 is a reshape;
//   - recip(sqrt x) is rsqrt x, pow with exponent 1, 2 or -1 is a product or reciprocal, division by a power of two is
//     a product;
//   - a gather from a cast that loses nothing and widens is the cast of a gather, so that no wide copy is looked up in;
//   - a permute of the last two axes before a dot becomes its transpose flag, and batch dimensions of 1 leave the dot.
// Values are kept up to the sign of zero and the rounding of rsqrt and reciprocals. Nodes nobody needs are dropped.
#pragma once

#include "causeway/graph/graph.h"

namespace causeway::passes {

// With `keeps_sums` no two sums become one, whose terms are added up in another order.
Graph canonicalize(const Graph& graph, bool keeps_sums = false);

}  // namespace causeway::passes
