// Sums that go on over runs of a program, as gradients over micro-batches: `x = x + v`. They are traced behind all
// gradients, which would all be in memory until then; here each comes right behind what it adds, so that a GEMM adds
// its result to the sum itself.
#pragma once

#include "causeway/graph/graph.h"

namespace causeway::passes {

// Where nothing else reads the sum, old or new. What comes from other ranks is added where it was: a sum would have to
// wait for it, and so would what follows the sum.
Graph early_sums(const Graph& graph);

}  // namespace causeway::passes
