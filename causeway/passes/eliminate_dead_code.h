// Drops the nodes that no output or assignment needs. Graph inputs stay: they are the program's signature.
#pragma once

#include "causeway/graph/graph.h"

namespace causeway::passes {

Graph eliminate_dead_code(const Graph& graph);

}  // namespace causeway::passes
