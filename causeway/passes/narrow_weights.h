// Weights that products read in a narrower type, as inputs of that type: where they never change, what a program would
// cast anew in each run is cast once.
#pragma once

#include <vector>

#include "causeway/graph/graph.h"

namespace causeway::passes {

struct NarrowedWeights {
  Graph graph;
  std::vector<size_t> sources;  // of the inputs that it has behind those of the old graph: whose casts they are
};

// `never_change` says of which of the graph's inputs. Those that are f32 and reach an operand of a dot or a
// linear_cross_entropy through reshapes, slices and permutes at most are read there as further inputs of type
// `compute`, cast back to f32: what mixed_precision() makes of that with the same type has no cast left. All inputs
// stay, also those that nothing reads any more.
NarrowedWeights narrow_weights(const Graph& graph, const std::vector<bool>& never_change, DType compute);

}  // namespace causeway::passes
