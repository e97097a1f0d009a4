#include "causeway/passes/gradient.h"

#include <algorithm>
#include <map>
#include <ranges>
#include <set>

#include "causeway/base/error.h"
#include "causeway/passes/gradient_rules.h"

namespace causeway::passes {
namespace {

// Of what `outputs` are computed from, the values that depend on `wrt` through differentiable ops. Nothing else is
// looked at: a step's graph holds the other micro-batches too.
class ActiveValues {
 public:
  ActiveValues(const Graph& graph, std::span<const Value> outputs, std::span<const Value> wrt,
               std::span<const Value> stop)
      : graph_(graph), wrt_(wrt.begin(), wrt.end()), stop_(stop.begin(), stop.end()), nodes_(graph.nodes().size()) {
    for (const int32_t index : ancestors(outputs)) {
      const Node& node = graph.nodes()[static_cast<size_t>(index)];
      if (std::none_of(node.inputs.begin(), node.inputs.end(), [&](Value input) { return contains(input); })) continue;
      nodes_[static_cast<size_t>(index)] = true;
      in_order_.push_back(index);
    }
  }

  bool contains(Value value) const {
    if (!is_float(graph_.dtype(value)) || stop_.contains(value)) return false;
    return wrt_.contains(value) || nodes_[static_cast<size_t>(value.node)];
  }
  // The nodes that gradients flow on through, in the graph's order.
  const std::vector<int32_t>& nodes() const { return in_order_; }
  bool stops(Value value) const { return stop_.contains(value); }

 private:
  // Nodes of differentiable ops, in the graph's order.
  std::vector<int32_t> ancestors(std::span<const Value> outputs) const {
    std::vector<bool> seen(graph_.nodes().size());
    std::vector<int32_t> found;
    const auto visit = [&](Value value) {
      const auto index = static_cast<size_t>(value.node);
      if (seen[index] || gradient_rule(graph_.nodes()[index].op) == nullptr) return;
      seen[index] = true;
      found.push_back(value.node);
    };
    for (const Value output : outputs) visit(output);
    for (size_t i = 0; i < found.size(); ++i)
      for (const Value input : graph_.nodes()[static_cast<size_t>(found[i])].inputs) visit(input);
    std::sort(found.begin(), found.end());
    return found;
  }

  const Graph& graph_;
  std::set<Value> wrt_;
  std::set<Value> stop_;
  std::vector<bool> nodes_;
  std::vector<int32_t> in_order_;
};

// Restores what the caller had set when the gradient nodes are done.
class Marking {
 public:
  explicit Marking(Graph& graph) : graph_(graph), scope_(graph.scope()), backward_(graph.backward()) {
    graph.set_backward(true);
  }
  ~Marking() {
    graph_.set_scope(scope_);
    graph_.set_backward(backward_);
  }
  Marking(const Marking&) = delete;
  Marking& operator=(const Marking&) = delete;

 private:
  Graph& graph_;
  std::string scope_;
  bool backward_;
};

}  // namespace

std::vector<Value> add_gradients(Graph& graph, std::span<const Value> outputs, std::span<const Value> output_gradients,
                                 std::span<const Value> wrt, std::span<const Value> stop) {
  CAUSEWAY_CHECK(outputs.size() == output_gradients.size(), "{} outputs, {} gradients", outputs.size(),
                 output_gradients.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (graph.type(outputs[i]) != graph.type(output_gradients[i]) || !is_float(graph.dtype(outputs[i])))
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("the gradient of a {} was given as {}", graph.type(outputs[i]).text(),
                              graph.type(output_gradients[i]).text()),
                  graph.node(outputs[i]).scope, "give a gradient of the output's own float type and shape");
  }
  for (const Value value : wrt) {
    if (!is_float(graph.dtype(value)))
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("a gradient with respect to a {} does not exist", graph.type(value).text()),
                  graph.node(value).attributes.name, "differentiate with respect to float tensors only");
  }

  const ActiveValues active(graph, outputs, wrt, stop);
  std::map<Value, Value> gradients;
  const Builder build(graph);
  const Marking marking(graph);
  const auto accumulate = [&](Value value, Value gradient) {
    const auto [entry, inserted] = gradients.try_emplace(value, gradient);
    if (!inserted) entry->second = build.add(entry->second, gradient);
  };

  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!active.contains(outputs[i])) continue;
    graph.set_scope(graph.node(outputs[i]).scope);
    accumulate(outputs[i], output_gradients[i]);
  }
  for (const int32_t index : active.nodes() | std::views::reverse) {
    GradientRequest request{graph, build, graph.node(index), {}, {}, {}};
    bool any = false;
    for (int32_t o = 0; o < static_cast<int32_t>(request.node.outputs.size()); ++o) {
      const auto entry = gradients.find({index, o});
      const bool flows = entry != gradients.end() && !active.stops({index, o});
      request.values.push_back({index, o});
      request.output_gradients.push_back(flows ? entry->second : Value{});
      any = any || flows;
    }
    if (!any) continue;
    for (const Value input : request.node.inputs) request.needed.push_back(active.contains(input));
    graph.set_scope(request.node.scope);
    const std::vector<Value> results = gradient_rule(request.node.op)(request);
    CAUSEWAY_CHECK(results.size() == request.node.inputs.size(), "gradient rule of {}", op_name(request.node.op));
    for (size_t i = 0; i < results.size(); ++i) {
      if (!request.needed[i] || !results[i].valid()) continue;
      CAUSEWAY_CHECK(graph.type(results[i]) == graph.type(request.node.inputs[i]),
                     "gradient of {}, input {}: {} for {}", op_name(request.node.op), i, graph.type(results[i]).text(),
                     graph.type(request.node.inputs[i]).text());
      accumulate(request.node.inputs[i], results[i]);
    }
  }

  std::vector<Value> results;
  for (const Value value : wrt) {
    const auto entry = gradients.find(value);
    graph.set_scope(graph.node(value).scope);
    results.push_back(entry != gradients.end() ? entry->second : build.zeros_like(value));
  }
  return results;
}

std::vector<Value> add_gradients(Graph& graph, Value loss, std::span<const Value> wrt, std::span<const Value> stop) {
  if (!graph.shape(loss).empty() || !is_float(graph.dtype(loss)))
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("the loss is a {}, but gradients need a scalar float", graph.type(loss).text()),
                graph.node(loss).scope, "reduce the loss to one number with sum() or mean()");
  Value one;
  {
    const Marking marking(graph);
    graph.set_scope(graph.node(loss).scope);
    one = Builder(graph).constant_like(loss, 1);
  }
  return add_gradients(graph, std::span(&loss, 1), std::span(&one, 1), wrt, stop);
}

}  // namespace causeway::passes
