#include "causeway/passes/decoded_weights.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "causeway/graph/op.h"
#include "causeway/graph/rewrite.h"

namespace causeway::passes {
namespace {

bool holds_codes(DType dtype) { return dtype == DType::kU8 || dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2; }

bool carries(Op op) {
  return is_elementwise(op) || op_info(op).kind == OpKind::kMovement || op == Op::kGather || op == Op::kAllGather;
}

// Gives each node that reads decoded weights what decodes them as nodes of its own.
class Decoding {
 public:
  Decoding(const Graph& source, const std::vector<bool>& decoded)
      : source_(source), decoded_(decoded), mapped_(source.nodes().size()) {}

  Graph run() {
    const std::vector<bool> needed = needed_nodes(source_);
    for (const Value input : source_.inputs())
      mapped_[static_cast<size_t>(input.node)] = {copy_input(target_, source_, input)};
    for (size_t i = 0; i < source_.nodes().size(); ++i) {
      const Node& node = source_.nodes()[i];
      if (!needed[i] || node.op == Op::kInput) continue;
      std::vector<Value> inputs;
      std::map<int32_t, std::vector<Value>> own;
      for (const Value input : node.inputs)
        inputs.push_back(!decoded_[i] && is_decoded(input) ? decode(input, node, own) : map(input));
      mapped_[i] = copy_node(target_, node, std::move(inputs));
    }
    for (const Value output : source_.outputs) target_.outputs.push_back(map(output));
    for (const Assignment& assignment : source_.assignments)
      target_.assignments.push_back({map(assignment.target), map(assignment.value)});
    // What nobody but those nodes has read is gone.
    return rebuild_graph(target_, copy_node);
  }

 private:
  bool is_decoded(Value value) const { return decoded_[static_cast<size_t>(value.node)]; }
  Value map(Value value) const { return mapped_[static_cast<size_t>(value.node)][static_cast<size_t>(value.output)]; }

  // All of it, from the graph's inputs on, in the graph's order.
  Value decode(Value value, const Node& reader, std::map<int32_t, std::vector<Value>>& own) {
    std::vector<int32_t> pending = {value.node};
    std::set<int32_t> steps;
    while (!pending.empty()) {
      const int32_t index = pending.back();
      pending.pop_back();
      const Node& node = source_.nodes()[static_cast<size_t>(index)];
      if (node.op == Op::kInput || own.contains(index) || !steps.insert(index).second) continue;
      for (const Value input : node.inputs) pending.push_back(input.node);
    }
    for (const int32_t index : steps) {
      Node step = source_.nodes()[static_cast<size_t>(index)];
      step.backward = reader.backward;
      std::vector<Value> inputs;
      for (const Value input : step.inputs)
        inputs.push_back(source_.node(input).op == Op::kInput ? map(input) : at(own, input));
      own[index] = copy_node(target_, step, std::move(inputs));
    }
    return at(own, value);
  }

  static Value at(const std::map<int32_t, std::vector<Value>>& own, Value value) {
    return own.at(value.node).at(static_cast<size_t>(value.output));
  }

  const Graph& source_;
  const std::vector<bool>& decoded_;
  Graph target_;
  std::vector<std::vector<Value>> mapped_;
};

}  // namespace

std::vector<bool> find_decoded_weights(const Graph& graph) {
  std::set<Value> assigned;
  for (const Assignment& assignment : graph.assignments) assigned.insert(assignment.target);
  const size_t count = graph.nodes().size();
  // What follows from what never changes within a program, and what of it from codes.
  std::vector<bool> fixed(count), of_codes(count), decoded(count);
  for (size_t i = 0; i < count; ++i) {
    const Node& node = graph.nodes()[i];
    if (node.op == Op::kInput) {
      fixed[i] = !assigned.contains({static_cast<int32_t>(i), 0});
      of_codes[i] = fixed[i] && holds_codes(node.outputs[0].dtype);
      continue;
    }
    const auto is = [](const std::vector<bool>& property) {
      return [&property](Value input) { return property[static_cast<size_t>(input.node)]; };
    };
    fixed[i] = node.op == Op::kConstant || node.op == Op::kIota ||
               (carries(node.op) && !node.inputs.empty() && std::ranges::all_of(node.inputs, is(fixed)));
    of_codes[i] = decoded[i] = fixed[i] && std::ranges::any_of(node.inputs, is(of_codes));
  }
  return decoded;
}

Graph decode_weights_at_use(const Graph& graph) {
  const std::vector<bool> decoded = find_decoded_weights(graph);
  const bool multiplies = std::ranges::any_of(graph.nodes(), [&](const Node& node) {
    return (node.op == Op::kDot || node.op == Op::kScaledDot || node.op == Op::kGroupedDot) &&
           std::ranges::any_of(node.inputs, [&](Value input) { return decoded[static_cast<size_t>(input.node)]; });
  });
  return multiplies ? Decoding(graph, decoded).run() : graph;
}

}  // namespace causeway::passes
