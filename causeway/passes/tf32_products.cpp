#include "causeway/passes/tf32_products.h"

#include "causeway/graph/rewrite.h"

namespace causeway::passes {

Graph tf32_products(const Graph& graph) {
  return rebuild_graph(graph, [](Graph& target, const Node& node, const std::vector<Value>& inputs) {
    const bool rounds = node.op == Op::kDot && target.type(inputs[0]).dtype == DType::kF32 &&
                        target.type(inputs[1]).dtype == DType::kF32;
    if (!rounds) return copy_node(target, node, inputs);
    Node rounding = node;
    rounding.attributes.tf32 = true;
    return copy_node(target, rounding, inputs);
  });
}

}  // namespace causeway::passes
