#include "causeway/passes/regather_weights.h"

#include <algorithm>
#include <map>

#include "causeway/graph/rewrite.h"
#include "causeway/passes/weight_gathers.h"

namespace causeway::passes {
namespace {

class Regathering {
 public:
  Regathering(const Graph& source, const Mesh& mesh)
      : source_(source), gathers_(find_weight_gathers(source, mesh)), mapped_(source.nodes().size()) {}

  Graph run() {
    const std::vector<bool> needed = needed_nodes(source_);
    for (const Value input : source_.inputs())
      mapped_[static_cast<size_t>(input.node)] = {copy_input(target_, source_, input)};
    for (size_t i = 0; i < source_.nodes().size(); ++i) {
      const Node& node = source_.nodes()[i];
      if (!needed[i] || is_input(node.op)) continue;
      std::vector<Value> inputs;
      for (const Value input : node.inputs)
        inputs.push_back(node.backward && gathers_.made_again[static_cast<size_t>(input.node)] ? clone(input)
                                                                                               : map(input));
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
      inputs.push_back(gathers_.gathered[static_cast<size_t>(input.node)] ? clone(input) : map(input));
    node.backward = true;
    const Value copy = copy_node(target_, node, std::move(inputs))[static_cast<size_t>(value.output)];
    clones_[value] = copy;
    return copy;
  }

  const Graph& source_;
  Graph target_;
  const WeightGathers gathers_;
  std::vector<std::vector<Value>> mapped_;
  std::map<Value, Value> clones_;
};

}  // namespace

Graph regather_weights(const Graph& graph, const Mesh& mesh) {
  // A stage of a pipeline uses a weight in every micro-batch, forward and backward by turns: it stays gathered.
  const bool of_stage = std::any_of(graph.nodes().begin(), graph.nodes().end(),
                                    [](const Node& node) { return op_info(node.op).kind == OpKind::kMessage; });
  return of_stage ? graph : Regathering(graph, mesh).run();
}

}  // namespace causeway::passes
