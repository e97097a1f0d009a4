// Nodes with the same op, inputs and attributes become one: the first. Ops have no side effects and random_bits is a
// function of its inputs and stream, so this keeps every value. It must not run after recompute(), whose clones it
// would merge with what they were cloned from.
#pragma once

#include "causeway/graph/graph.h"

namespace causeway::passes {

Graph eliminate_common_subexpressions(const Graph& graph);

}  // namespace causeway::passes
