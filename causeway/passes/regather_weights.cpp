#include "causeway/passes/regather_weights.h"

#include <algorithm>
#include <map>

#include "causeway/graph/rewrite.h"

namespace causeway::passes {
namespace {

class Regathering {
 public:
  explicit Regathering(const Graph& source)
      : source_(source), gathered_(source.nodes().size()), mapped_(source.nodes().size()) {
    std::vector<bool> of_inputs(source.nodes().size());
    for (size_t i = 0; i < gathered_.size(); ++i) {
      const Node& node = source.nodes()[i];
      const bool carries =
          is_elementwise(node.op) || op_info(node.op).kind == OpKind::kMovement || node.op == Op::kAllGather;
      of_inputs[i] = node.op == Op::kInput || (carries && !node.inputs.empty() &&
                                               std::all_of(node.inputs.begin(), node.inputs.end(), [&](Value input) {
                                                 return of_inputs[static_cast<size_t>(input.node)];
                                               }));
      gathered_[i] =
          of_inputs[i] && !node.backward &&
          (node.op == Op::kAllGather || std::any_of(node.inputs.begin(), node.inputs.end(), [&](Value input) {
             return gathered_[static_cast<size_t>(input.node)];
           }));
    }
  }

  Graph run() {
    const std::vector<bool> needed = needed_nodes(source_);
    for (const Value input : source_.inputs())
      mapped_[static_cast<size_t>(input.node)] = {
          target_.add_input(source_.node(input).attributes.name, source_.type(input))};
    for (size_t i = 0; i < source_.nodes().size(); ++i) {
      const Node& node = source_.nodes()[i];
      if (!needed[i] || node.op == Op::kInput) continue;
      std::vector<Value> inputs;
      for (const Value input : node.inputs)
        inputs.push_back(node.backward && gathered_[static_cast<size_t>(input.node)] ? clone(input) : map(input));
      mapped_[i] = copy_node(target_, node, std::move(inputs));
    }
    for (const Value output : source_.outputs) target_.outputs.push_back(map(output));
    for (const Assignment& assignment : source_.assignments)
      target_.assignments.push_back({map(assignment.target), map(assignment.value)});
    return std::move(target_);
  }

 private:
  Value map(Value value) const { return mapped_[static_cast<size_t>(value.node)][static_cast<size_t>(value.output)]; }

  Value clone(Value value) {
    const auto known = clones_.find(value);
    if (known != clones_.end()) return known->second;
    Node node = source_.node(value);
    std::vector<Value> inputs;
    for (const Value input : node.inputs)
      inputs.push_back(gathered_[static_cast<size_t>(input.node)] ? clone(input) : map(input));
    node.backward = true;
    const Value copy = copy_node(target_, node, std::move(inputs))[static_cast<size_t>(value.output)];
    clones_[value] = copy;
    return copy;
  }

  const Graph& source_;
  Graph target_;
  std::vector<bool> gathered_;  // by node: forward, made of inputs with an all_gather among the steps
  std::vector<std::vector<Value>> mapped_;
  std::map<Value, Value> clones_;
};

}  // namespace

Graph regather_weights(const Graph& graph) {
  // A stage of a pipeline uses a weight in every micro-batch, forward and backward by turns: it stays gathered.
  const bool of_stage = std::any_of(graph.nodes().begin(), graph.nodes().end(),
                                    [](const Node& node) { return op_info(node.op).kind == OpKind::kMessage; });
  return of_stage ? graph : Regathering(graph).run();
}

}  // namespace causeway::passes
