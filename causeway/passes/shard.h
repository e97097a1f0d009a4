// From a graph of whole tensors, whose inputs say how they lie over a mesh, to the graph that every rank of the mesh
// runs on its parts, with collectives where parts have to be exchanged.
#pragma once

#include "causeway/graph/graph.h"

namespace causeway::passes {

// Inputs take the shape of a rank's part. Outputs are whole on every rank; what is assigned lies as its target does.
// Values in between lie as the rules of their primitives say (sharding_rules.h): where several ways are possible, the
// one that moves the fewest bytes; a sum over ranks is put off until something needs it, and then lies as what it is
// combined with.
//
// Takes a graph that has an input kMeshCoordinates. Throws Error(kInvalidArgument) for a sharding that does not fit
// (check_sharding()).
Graph shard(const Graph& graph, const Mesh& mesh);

}  // namespace causeway::passes
