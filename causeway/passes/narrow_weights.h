// Weights that GEMMs read in a narrower type, as inputs of that type: where they never change, what a program would
// cast anew in each run is cast once.
#pragma once

#include <vector>

#include "causeway/graph/graph.h"

namespace causeway::passes {

struct NarrowedWeights {
  // What a further input holds: the cast of one of the old graph's.
  struct Source {
    size_t input = 0;
    bool transposed = false;  // its two axes
    bool operator==(const Source&) const = default;
  };
  Graph graph;
  std::vector<Source> sources;  // of the inputs that it has behind those of the old graph
};

// `never_change` says of which of the graph's inputs. Those that are f32 and reach an operand of a dot or a
// linear_cross_entropy through reshapes, slices and permutes at most are read there as further inputs of type
// `compute`, cast back to f32: what mixed_precision() makes of that with the same type has no cast left. With
// `lines_along_k`, matrices that a dot sums along the first axis are transposed: a column of them is a line of memory
// then. All inputs stay, also those that nothing reads any more.
NarrowedWeights narrow_weights(const Graph& graph, const std::vector<bool>& never_change, DType compute,
                               bool lines_along_k);

}  // namespace causeway::passes
