// Weights that GEMMs read in a narrower type, as inputs of that type: where they never change, what a program would
// cast anew in each run is cast once.
#pragma once

#include <vector>

#include "causeway/graph/graph.h"

namespace causeway::passes {

struct NarrowedWeights {
  // What a further input holds: the cast of one of the old graph's, or the casts of several, the rows of each below
  // those of the one before.
  struct Source {
    std::vector<size_t> inputs;
    bool transposed = false;  // the two axes of each
    bool operator==(const Source&) const = default;
  };
  Graph graph;
  std::vector<Source> sources;  // of the inputs that it has behind those of the old graph
};

// How the further inputs lie.
struct NarrowWeightsLayout {
  // Matrices that a dot sums along the first axis are transposed: a column of them is a line of memory then.
  bool lines_along_k = false;
  // Matrices that multiply one and the same activation (queries, keys and values; a gate and what it lets through) lie
  // below one another, as one input, and one dot multiplies all of them: a launch reads more of memory at a time than
  // several that follow one another. Asks for lines_along_k.
  bool joined = false;
};

// `never_change` says of which of the graph's inputs. Those that are f32 and reach an operand of a dot or a
// linear_cross_entropy through reshapes, slices and permutes at most are read there as further inputs of type
// `compute`, cast back to f32: what mixed_precision() makes of that with the same type has no cast left. All inputs
// stay, also those that nothing reads any more.
NarrowedWeights narrow_weights(const Graph& graph, const std::vector<bool>& never_change, DType compute,
                               NarrowWeightsLayout layout);

}  // namespace causeway::passes
