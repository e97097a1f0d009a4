// Finding the residual stream: the running sum that blocks read from and add to.
#pragma once

#include <vector>

#include "causeway/graph/graph.h"

namespace causeway::passes {

// Which nodes are an `add` of a value and something that was computed from that value by way of a dot or attention:
// x + f(x) in the forward pass, and g + f'(g) in the backward pass. Sums with a graph input (a parameter and its
// update) are not counted.
std::vector<bool> residual_additions(const Graph& graph);

}  // namespace causeway::passes
