#include "causeway/graph/rewrite.h"

#include <optional>
#include <string>

#include "causeway/base/error.h"

namespace causeway::graph {

std::vector<bool> needed_nodes(const Graph& graph) {
  std::vector<bool> needed(graph.nodes().size());
  for (const Value value : graph.inputs()) needed[static_cast<size_t>(value.node)] = true;
  for (const Value value : graph.outputs) needed[static_cast<size_t>(value.node)] = true;
  for (const Assignment& assignment : graph.assignments) needed[static_cast<size_t>(assignment.value.node)] = true;
  for (size_t i = graph.nodes().size(); i-- > 0;) {
    needed[i] = needed[i] || is_effect(graph.nodes()[i].op);
    if (needed[i])
      for (const Value input : graph.nodes()[i].inputs) needed[static_cast<size_t>(input.node)] = true;
  }
  return needed;
}

std::vector<std::vector<int>> count_uses(const Graph& graph) {
  std::vector<std::vector<int>> uses;
  uses.reserve(graph.nodes().size());
  for (const Node& node : graph.nodes()) uses.emplace_back(node.outputs.size());
  const auto use = [&](Value value) { ++uses[static_cast<size_t>(value.node)][static_cast<size_t>(value.output)]; };
  for (const Node& node : graph.nodes())
    for (const Value input : node.inputs) use(input);
  for (const Value value : graph.outputs) use(value);
  for (const Assignment& assignment : graph.assignments) use(assignment.value);
  return uses;
}

Value copy_input(Graph& target, const Graph& source, Value input) {
  const Attributes& attributes = source.node(input).attributes;
  return target.add_input(attributes.name, source.type(input), attributes.sharding, attributes.on_host);
}

std::vector<Value> copy_node(Graph& target, const Node& node, std::vector<Value> inputs) {
  const bool previous_backward = target.backward();
  std::optional<std::string> previous;  // where it is another scope
  if (target.scope() != node.scope) {
    previous = target.scope();
    target.set_scope(node.scope);
  }
  target.set_backward(node.backward);
  const Value first = target.add(node.op, std::move(inputs), node.attributes);
  if (previous) target.set_scope(*previous);
  target.set_backward(previous_backward);
  std::vector<Value> outputs;
  outputs.reserve(node.outputs.size());
  for (size_t i = 0; i < node.outputs.size(); ++i) outputs.push_back({first.node, static_cast<int32_t>(i)});
  return outputs;
}

Graph rebuild_graph(const Graph& source, const NodeTransform& transform) {
  const std::vector<bool> needed = needed_nodes(source);
  Graph target;
  std::vector<std::vector<Value>> mapped(source.nodes().size());
  const auto map = [&](Value value) {
    const Value result = mapped[static_cast<size_t>(value.node)].at(static_cast<size_t>(value.output));
    CAUSEWAY_CHECK(result.valid(), "output {} of {} was dropped but is used", value.output,
                   op_name(source.node(value).op));
    return result;
  };
  for (const Value value : source.inputs())
    mapped[static_cast<size_t>(value.node)] = {copy_input(target, source, value)};
  for (size_t i = 0; i < source.nodes().size(); ++i) {
    const Node& node = source.nodes()[i];
    if (!needed[i] || is_input(node.op)) continue;
    std::vector<Value> inputs;
    inputs.reserve(node.inputs.size());
    for (const Value input : node.inputs) inputs.push_back(map(input));
    target.set_scope(node.scope);
    target.set_backward(node.backward);
    mapped[i] = transform(target, node, inputs);
    CAUSEWAY_CHECK(mapped[i].size() == node.outputs.size(), "{} was replaced by {} values", op_name(node.op),
                   mapped[i].size());
  }
  target.set_scope({});
  target.set_backward(false);
  for (const Value value : source.outputs) target.outputs.push_back(map(value));
  for (const Assignment& assignment : source.assignments)
    target.assignments.push_back({map(assignment.target), map(assignment.value)});
  return target;
}

}  // namespace causeway::graph
