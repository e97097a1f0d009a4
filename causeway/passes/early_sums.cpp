#include "causeway/passes/early_sums.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "causeway/graph/op.h"
#include "causeway/graph/rewrite.h"

namespace causeway::passes {
namespace {

bool comes_from_ranks(const Graph& graph, Value value) {
  std::vector<int32_t> pending = {value.node};
  std::set<int32_t> seen;
  while (!pending.empty()) {
    const int32_t index = pending.back();
    pending.pop_back();
    if (!seen.insert(index).second) continue;
    const Node& node = graph.nodes()[static_cast<size_t>(index)];
    const OpKind kind = op_info(node.op).kind;
    if (kind == OpKind::kCollective || kind == OpKind::kMessage) return true;
    if (!is_elementwise(node.op) && kind != OpKind::kMovement) continue;
    for (const Value input : node.inputs) pending.push_back(input.node);
  }
  return false;
}

// What the assignment adds to its target, where it is a sum that may be made earlier.
std::optional<Value> added_by(const Graph& graph, const Assignment& assignment,
                              const std::vector<std::vector<int>>& uses) {
  const auto is_used_once = [&](Value value) {
    return uses[static_cast<size_t>(value.node)][static_cast<size_t>(value.output)] == 1;
  };
  const Node& sum = graph.node(assignment.value);
  if (sum.op != Op::kAdd || !is_used_once(assignment.value) || !is_used_once(assignment.target)) return std::nullopt;
  const bool first = sum.inputs[0] == assignment.target;
  if (!first && sum.inputs[1] != assignment.target) return std::nullopt;
  const Value added = sum.inputs[first ? 1 : 0];
  if (is_input(graph.node(added).op) || comes_from_ranks(graph, added)) return std::nullopt;
  return added;
}

}  // namespace

Graph early_sums(const Graph& graph) {
  const std::vector<std::vector<int>> uses = count_uses(graph);
  std::map<int32_t, std::vector<int32_t>> behind;  // by node, the sums that come behind it
  std::vector<bool> is_moved(graph.nodes().size());
  for (const Assignment& assignment : graph.assignments) {
    const std::optional<Value> added = added_by(graph, assignment, uses);
    if (!added) continue;
    behind[added->node].push_back(assignment.value.node);
    is_moved[static_cast<size_t>(assignment.value.node)] = true;
  }

  Graph moved;
  std::vector<std::vector<Value>> mapped(graph.nodes().size());
  const auto map = [&](Value value) {
    return mapped[static_cast<size_t>(value.node)][static_cast<size_t>(value.output)];
  };
  const auto copy = [&](int32_t index) {
    const Node& node = graph.nodes()[static_cast<size_t>(index)];
    std::vector<Value> inputs;
    for (const Value input : node.inputs) inputs.push_back(map(input));
    mapped[static_cast<size_t>(index)] = copy_node(moved, node, std::move(inputs));
  };
  for (const Value input : graph.inputs()) mapped[static_cast<size_t>(input.node)] = {copy_input(moved, graph, input)};
  for (int32_t i = 0; i < std::ssize(graph.nodes()); ++i) {
    if (is_moved[static_cast<size_t>(i)] || is_input(graph.nodes()[static_cast<size_t>(i)].op)) continue;
    copy(i);
    if (const auto sums = behind.find(i); sums != behind.end()) std::ranges::for_each(sums->second, copy);
  }
  for (const Value output : graph.outputs) moved.outputs.push_back(map(output));
  for (const Assignment& assignment : graph.assignments)
    moved.assignments.push_back({map(assignment.target), map(assignment.value)});
  return moved;
}

}  // namespace causeway::passes
