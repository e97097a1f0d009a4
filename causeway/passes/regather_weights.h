// Weights that are cut over ranks are whole only while they are used: what the forward pass gathers, the backward pass
// gathers again (ZeRO-3: Rajbhandari et al., arXiv 1910.02054), so that no more than a few are whole at a time. But for
// those that are gathered over axes that keep them alone (MeshAxis::keeps_weights).
#pragma once

#include "causeway/graph/graph.h"

namespace causeway::passes {

// Clones every all_gather of what follows from the graph's inputs alone, element by element or by movement, for its
// uses by backward nodes, where the forward pass uses it too and find_weight_gathers() says that it is made again.
// Clones stand before their first use. A stage of a pipeline keeps what it has gathered.
Graph regather_weights(const Graph& graph, const Mesh& mesh);

}  // namespace causeway::passes
