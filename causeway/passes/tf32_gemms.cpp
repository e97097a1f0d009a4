#include "causeway/passes/tf32_gemms.h"

#include <map>
#include <numeric>
#include <utility>

#include "causeway/graph/op.h"
#include "causeway/graph/rewrite.h"
#include "causeway/passes/builder.h"

namespace causeway::passes {

Graph tf32_gemms(const Graph& graph, bool along_k) {
  std::map<Value, Value> transposed;
  return rebuild_graph(graph, [&](Graph& target, const Node& node, const std::vector<Value>& inputs) {
    const bool attention = node.op == Op::kAttention || node.op == Op::kAttentionGradient;
    const bool grouped = node.op == Op::kGroupedDot;
    const bool rounds = (node.op == Op::kDot || grouped || attention) && target.type(inputs[0]).dtype == DType::kF32 &&
                        target.type(inputs[1]).dtype == DType::kF32;
    if (!rounds) return copy_node(target, node, inputs);
    Node rounding = node;
    rounding.attributes.tf32 = true;
    // Mainloops that want operands along k serve no groups.
    if (!along_k || grouped || attention) return copy_node(target, rounding, inputs);
    std::vector<Value> operands = inputs;
    const auto transpose = [&](Value& operand) {
      const auto [entry, is_new] = transposed.try_emplace(operand);
      if (is_new) {
        std::vector<int64_t> axes(target.shape(operand).size());
        std::iota(axes.begin(), axes.end(), 0);
        std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
        entry->second = Builder(target).permute(operand, std::move(axes));
      }
      operand = entry->second;
    };
    if (std::exchange(rounding.attributes.transpose_a, false)) transpose(operands[0]);
    if (!std::exchange(rounding.attributes.transpose_b, true)) transpose(operands[1]);
    return copy_node(target, rounding, operands);
  });
}

}  // namespace causeway::passes
