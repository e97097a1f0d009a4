#include "causeway/passes/eliminate_dead_code.h"

#include "causeway/graph/rewrite.h"

namespace causeway::passes {

Graph eliminate_dead_code(const Graph& graph) { return rebuild_graph(graph, copy_node); }

}  // namespace causeway::passes
