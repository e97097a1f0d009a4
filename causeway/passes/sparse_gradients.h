// Sums by index into zeros, as an embedding's gradient is, of far fewer updates than there are rows: kept as the rows
// that have an update, and for each row of the whole which of those it is. Loops that read the whole, as a clipped
// norm's and an optimizer's do, look its rows up; it is never in memory.
#pragma once

#include "causeway/graph/graph.h"

namespace causeway::passes {

// Where nothing but elementwise ops read the whole, sizes are constant and there are at most `most_updates`, each of
// which is compared with all others, and fewer than half as many as rows. The same updates are added in the same order.
Graph sparse_gradients(const Graph& graph, int64_t most_updates);

}  // namespace causeway::passes
