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
// With `whole_sums` no rank ever holds a term of a sum: what a sum runs over is gathered, and who needs the sum
// computes it, in the order that it has on one device. Costs the memory, the communication and the repeated work of
// that.
//
// Takes a graph that has an input kMeshCoordinates. Throws Error(kInvalidArgument) for a sharding that does not fit
// (check_sharding()).
Graph shard(const Graph& graph, const Mesh& mesh, bool whole_sums = false);

}  // namespace causeway::passes
