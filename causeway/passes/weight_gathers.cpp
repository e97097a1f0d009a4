#include "causeway/passes/weight_gathers.h"

#include <algorithm>

#include "causeway/graph/op.h"

namespace causeway::passes {

WeightGathers find_weight_gathers(const Graph& graph, const Mesh& mesh) {
  const size_t count = graph.nodes().size();
  const auto any_input = [](const Node& node, const std::vector<bool>& is) {
    return std::any_of(node.inputs.begin(), node.inputs.end(),
                       [&](Value input) { return is[static_cast<size_t>(input.node)]; });
  };
  const auto keeps = [&](const Node& node) {
    return std::ranges::all_of(group_axes(mesh, node.attributes.group),
                               [&](size_t axis) { return mesh.axes[axis].keeps_weights; });
  };
  WeightGathers found{std::vector<bool>(count), std::vector<bool>(count), std::vector<bool>(count)};
  std::vector<bool> of_inputs(count);
  for (size_t i = 0; i < count; ++i) {
    const Node& node = graph.nodes()[i];
    const bool gathers = node.op == Op::kAllGather;
    // The largest magnitudes of weights become their scales in 8 bits.
    const bool carries =
        is_elementwise(node.op) || op_info(node.op).kind == OpKind::kMovement || node.op == Op::kReduceMax || gathers;
    of_inputs[i] =
        node.op == Op::kInput || node.op == Op::kConstant ||
        (carries && !node.inputs.empty() && std::all_of(node.inputs.begin(), node.inputs.end(), [&](Value input) {
           return of_inputs[static_cast<size_t>(input.node)];
         }));
    if (!of_inputs[i] || node.backward) continue;
    found.gathered[i] = gathers || any_input(node, found.gathered);
    found.made_again[i] = (gathers && !keeps(node)) || any_input(node, found.made_again);
    found.kept[i] = gathers && !found.made_again[i];
  }
  // What leads to something that is made again is made again with it.
  std::vector<bool> leads = found.made_again;
  for (size_t i = count; i-- > 0;) {
    if (!leads[i]) continue;
    found.kept[i] = false;
    for (const Value input : graph.nodes()[i].inputs) leads[static_cast<size_t>(input.node)] = true;
  }
  return found;
}

}  // namespace causeway::passes
