#include "causeway/passes/shard.h"

#include <algorithm>

#include "causeway/base/error.h"
#include "causeway/graph/rewrite.h"

namespace causeway::passes {

Graph shard(const Graph& graph, const Mesh& mesh) {
  for (const Value input : graph.inputs()) {
    const Node& node = graph.node(input);
    check_sharding(node.attributes.sharding, graph.shape(input), mesh, node.attributes.name);
    if (!node.attributes.sharding.replicated())
      throw Error(ErrorKind::kUnsupported, fmt::format("'{}' is cut over the mesh", node.attributes.name));
  }
  return rebuild_graph(graph, [](Graph& target, const Node& node, const std::vector<Value>& inputs) {
    if (node.op == Op::kConstrainSharding) return inputs;
    return copy_node(target, node, inputs);
  });
}

}  // namespace causeway::passes
