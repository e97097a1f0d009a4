// Gathers of weights that are cut over ranks, in a graph of one rank: which of them are made again for the backward
// pass (ZeRO-3: Rajbhandari et al., arXiv 1910.02054), and which of them are kept for it (MeshAxis::keeps_weights).
#pragma once

#include <vector>

#include "causeway/graph/graph.h"

namespace causeway::passes {

// By node. Of forward nodes that follow from the graph's inputs alone, element by element, by movement or by
// all_gather: nothing else is said of.
struct WeightGathers {
  // An all_gather is among the steps from the inputs to it.
  std::vector<bool> gathered;
  // One of these is over an axis that does not keep weights: what is used of it in the backward pass is made again,
  // with every gather among the steps.
  std::vector<bool> made_again;
  // all_gathers over axes that keep weights, of which nothing follows that is made again.
  std::vector<bool> kept;
};

// `mesh` is the one that the groups of the graph's all_gathers are of.
WeightGathers find_weight_gathers(const Graph& graph, const Mesh& mesh);

}  // namespace causeway::passes
