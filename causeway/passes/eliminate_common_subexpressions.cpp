#include "causeway/passes/eliminate_common_subexpressions.h"

#include <unordered_map>

#include "causeway/graph/rewrite.h"

namespace causeway::passes {
namespace {

uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
  return hash;
}

// Equal nodes have equal hashes.
uint64_t node_hash(Op op, const std::vector<Value>& inputs, const Attributes& attributes) {
  uint64_t hash = mix(static_cast<uint64_t>(op), hash_value(attributes));
  for (const Value input : inputs)
    hash = mix(hash, (static_cast<uint64_t>(static_cast<uint32_t>(input.node)) << 8) ^
                         static_cast<uint64_t>(static_cast<uint32_t>(input.output)));
  return hash;
}

}  // namespace

Graph eliminate_common_subexpressions(const Graph& graph) {
  std::unordered_multimap<uint64_t, int32_t> seen;
  return rebuild_graph(graph, [&](Graph& target, const Node& node, const std::vector<Value>& inputs) {
    if (op_info(node.op).kind == OpKind::kMessage) return copy_node(target, node, inputs);
    const uint64_t hash = node_hash(node.op, inputs, node.attributes);
    const auto [begin, end] = seen.equal_range(hash);
    for (auto entry = begin; entry != end; ++entry) {
      const Node& earlier = target.node(entry->second);
      if (earlier.op != node.op || earlier.inputs != inputs || !(earlier.attributes == node.attributes)) continue;
      std::vector<Value> outputs;
      for (int32_t i = 0; i < static_cast<int32_t>(node.outputs.size()); ++i) outputs.push_back({entry->second, i});
      return outputs;
    }
    std::vector<Value> outputs = copy_node(target, node, inputs);
    seen.emplace(hash, outputs[0].node);
    return outputs;
  });
}

}  // namespace causeway::passes
