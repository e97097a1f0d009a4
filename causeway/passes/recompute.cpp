#include "causeway/passes/recompute.h"

#include <algorithm>
#include <map>
#include <set>

#include "causeway/base/error.h"
#include "causeway/graph/op.h"
#include "causeway/graph/rewrite.h"
#include "causeway/passes/decoded_weights.h"
#include "causeway/passes/minimum_cut.h"
#include "causeway/passes/residual_stream.h"
#include "causeway/passes/weight_gathers.h"

namespace causeway::passes {
namespace {

// A reduction of this many elements or more leaves so little behind that keeping it beats reading them again.
constexpr int64_t kSmallReduction = 8;

// Of a symbol, where bytes are compared.
constexpr int64_t kNominalSize = 64;

// Bytes that are written beside others at no cost, less than a launch that computes them again.
constexpr int64_t kSmallTensor = 4 << 20;

// What keeping a byte costs, in sixteenths: one more where it is written for that alone. So little decides only between
// values of nearly the same size.
constexpr int64_t kStoredPerByte = 16;

bool is_free(Op op) { return op == Op::kInput || op == Op::kConstant || op == Op::kIota; }

bool is_small_reduction(const Graph& graph, const Node& node) {
  Dim count(1);
  for (const int64_t axis : node.attributes.axes) count *= graph.shape(node.inputs[0])[static_cast<size_t>(axis)];
  return count.is_constant() && count.constant() < kSmallReduction;
}

// Which nodes the selective policy never computes twice: each would read much for the little that it leaves behind, or
// is a GEMM, a message or random access.
std::vector<bool> computed_once(const Graph& graph) {
  const std::vector<bool> residual = residual_additions(graph);
  std::vector<bool> once = residual;
  for (size_t i = 0; i < once.size(); ++i) {
    const Node& node = graph.nodes()[i];
    switch (op_info(node.op).kind) {
      case OpKind::kIndexing:
      case OpKind::kTemplate:
      case OpKind::kScan:
      case OpKind::kCollective:
      case OpKind::kMessage:
        once[i] = true;
        break;
      case OpKind::kReduce:
      case OpKind::kArgmax:
        once[i] = once[i] || !is_small_reduction(graph, node);
        break;
      default:
        break;
    }
  }
  // A residual stream stored in a narrower type is kept in that type.
  for (size_t i = 0; i < once.size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (node.op != Op::kCast || !residual[static_cast<size_t>(node.inputs[0].node)]) continue;
    if (size_bytes(node.outputs[0].dtype) >= size_bytes(graph.dtype(node.inputs[0]))) continue;
    once[i] = true;
    once[static_cast<size_t>(node.inputs[0].node)] = false;
  }
  return once;
}

// Whether a result is part of its input, or what the compiler reads its input as: it has no memory of its own.
bool is_view(Op op) {
  return op == Op::kReshape || op == Op::kPermute || op == Op::kSlice || op == Op::kBroadcast ||
         op == Op::kConstrainSharding;
}

int64_t nominal_bytes(const TensorType& type) {
  const Dim count = element_count(type.shape);
  SymbolBindings bindings;
  for (const int32_t symbol : count.symbols()) bindings[symbol] = kNominalSize;
  return count.evaluate(bindings) * static_cast<int64_t>(size_bytes(type.dtype));
}

// Whether the forward pass writes a node's results to memory, kept or not: what is computed once and read by more than
// elementwise nodes, which compute it with theirs, and what such nodes compute for one that is computed once.
std::vector<bool> stored_anyway(const Graph& graph, const std::vector<bool>& once) {
  std::vector<bool> stored(graph.nodes().size());
  const std::vector<bool> residual = residual_additions(graph);
  const auto store = [&](Value value) {
    while (is_view(graph.node(value).op)) value = graph.node(value).inputs[0];
    stored[static_cast<size_t>(value.node)] = true;
  };
  for (size_t i = 0; i < stored.size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (node.backward) continue;
    const OpKind kind = op_info(node.op).kind;
    if (residual[i] || kind == OpKind::kReduce || kind == OpKind::kArgmax) stored[i] = true;
    if (!once[i] || residual[i] || kind == OpKind::kReduce || kind == OpKind::kArgmax || node.op == Op::kCast) continue;
    for (const Value input : node.inputs) store(input);
  }
  return stored;
}

// Which nodes' results are kept: of all choices from which what is not kept can be computed again without a node that
// is computed once, the one with the fewest bytes; of equals one whose values are stored anyway, then the one that
// leaves the least to compute. It is a cheapest cut: an edge from a node to each of its values costs what keeping the
// value takes, values reach the nodes that read them, the source all that is computed once, and the sink what backward
// nodes read.
std::vector<bool> kept_selectively(const Graph& graph) {
  const std::vector<bool> once = computed_once(graph), stored = stored_anyway(graph, once);
  const std::vector<bool> decoded = find_decoded_weights(graph);
  const size_t nodes = graph.nodes().size();
  std::vector<int32_t> first_value(nodes);  // vertices: nodes, then values, source and sink
  auto vertices = static_cast<int32_t>(nodes);
  for (size_t i = 0; i < nodes; ++i) {
    first_value[i] = vertices;
    vertices += static_cast<int32_t>(graph.nodes()[i].outputs.size());
  }
  const auto vertex_of = [&](Value value) { return first_value[static_cast<size_t>(value.node)] + value.output; };
  const int32_t source = vertices, sink = vertices + 1;
  MinimumCut cut(vertices + 2);
  for (size_t i = 0; i < nodes; ++i) {
    const Node& node = graph.nodes()[i];
    const auto vertex = static_cast<int32_t>(i);
    for (const Value input : node.inputs) {
      const Node& from = graph.node(input);
      if (from.backward || is_free(from.op) || decoded[static_cast<size_t>(input.node)]) continue;
      if (node.backward)
        cut.add_edge(vertex_of(input), sink, MinimumCut::kUncuttable);
      else if (!once[i])
        cut.add_edge(vertex_of(input), vertex, MinimumCut::kUncuttable);
    }
    if (node.backward || is_free(node.op) || decoded[i]) continue;
    if (once[i]) cut.add_edge(source, vertex, MinimumCut::kUncuttable);
    for (size_t output = 0; output < node.outputs.size(); ++output) {
      const int64_t bytes = nominal_bytes(node.outputs[output]);
      const bool writes_more = !stored[i] && bytes > kSmallTensor;
      cut.add_edge(vertex, first_value[i] + static_cast<int32_t>(output),
                   is_view(node.op) ? MinimumCut::kUncuttable : kStoredPerByte * bytes + (writes_more ? bytes : 0));
    }
  }
  const std::vector<bool> at_sink = cut.sink_side(source, sink);
  std::vector<bool> kept(nodes);
  for (size_t i = 0; i < nodes; ++i) {
    kept[i] = is_free(graph.nodes()[i].op) || decoded[i];
    for (size_t output = 0; output < graph.nodes()[i].outputs.size(); ++output)
      if (!at_sink[i] && at_sink[static_cast<size_t>(first_value[i]) + output]) kept[i] = true;
  }
  return kept;
}

std::vector<bool> kept_between_blocks(const Graph& graph, const Mesh& mesh) {
  std::vector<std::string_view> blocks;
  for (const Node& node : graph.nodes()) blocks.push_back(block_of_scope(node.scope));
  std::vector<bool> kept = find_weight_gathers(graph, mesh).kept;
  const std::vector<bool> decoded = find_decoded_weights(graph);
  const auto keep = [&](Value value) { kept[static_cast<size_t>(value.node)] = true; };
  for (size_t i = 0; i < kept.size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (blocks[i].empty() || is_free(node.op) || op_info(node.op).kind == OpKind::kMessage || decoded[i])
      kept[i] = true;
    if (node.backward) continue;
    for (const Value input : node.inputs)
      if (blocks[static_cast<size_t>(input.node)] != blocks[i]) keep(input);
  }
  for (const Value output : graph.outputs) keep(output);
  return kept;
}

// Of the first blocks what `of_first` keeps, of the others and of what is in no block what `of_others` does.
std::vector<bool> kept_by_blocks(const Graph& graph, int64_t blocks, const std::vector<bool>& of_first,
                                 std::vector<bool> of_others) {
  std::set<std::string_view> first;
  for (size_t i = 0; i < of_others.size(); ++i) {
    const std::string_view block = block_of_scope(graph.nodes()[i].scope);
    if (block.empty()) continue;
    if (std::ssize(first) < blocks) first.insert(block);
    if (first.contains(block)) of_others[i] = of_first[i];
  }
  return of_others;
}

std::vector<bool> kept_nodes(const Graph& graph, const Recomputation& recomputation, const Mesh& mesh) {
  const bool is_selective = recomputation.policy == RecomputePolicy::kSelective;
  std::vector<bool> kept = is_selective ? kept_selectively(graph) : kept_between_blocks(graph, mesh);
  if (recomputation.blocks == 0) return kept;
  return kept_by_blocks(graph, recomputation.blocks, kept,
                        is_selective ? std::vector<bool>(kept.size(), true) : kept_selectively(graph));
}

class Recompute {
 public:
  Recompute(const Graph& graph, std::vector<bool> kept)
      : graph_(graph), kept_(std::move(kept)), forward_(graph.nodes().size()), clones_(graph.nodes().size()) {}

  std::vector<Value> transform(Graph& target, const Node& node, const std::vector<Value>& inputs, size_t index) {
    std::vector<Value> actual = inputs;
    if (node.backward)
      for (size_t i = 0; i < inputs.size(); ++i) actual[i] = for_backward(target, node.inputs[i], inputs[i]);
    forward_[index] = copy_node(target, node, std::move(actual));
    return forward_[index];
  }

 private:
  bool is_kept(Value value) const { return kept_[static_cast<size_t>(value.node)] || graph_.node(value).backward; }

  // The value a backward node reads: the kept one, or a clone. `original` is its counterpart in the target graph.
  Value for_backward(Graph& target, Value value, Value original) {
    if (is_kept(value)) return original;
    // Nodes to clone, found from the last; emitted in graph order. An explicit list, since chains can be deep.
    std::vector<int32_t> pending = {value.node}, order;
    std::vector<bool> seen(static_cast<size_t>(value.node) + 1);
    while (!pending.empty()) {
      const int32_t index = pending.back();
      pending.pop_back();
      if (seen[static_cast<size_t>(index)] || !clones_[static_cast<size_t>(index)].empty()) continue;
      seen[static_cast<size_t>(index)] = true;
      order.push_back(index);
      for (const Value input : graph_.node(index).inputs)
        if (!is_kept(input)) pending.push_back(input.node);
    }
    std::sort(order.begin(), order.end());
    for (const int32_t index : order) {
      Node clone = graph_.node(index);
      clone.backward = true;
      std::vector<Value> inputs;
      for (const Value input : clone.inputs)
        inputs.push_back(is_kept(input) ? in_forward(target, input) : cloned(input));
      clones_[static_cast<size_t>(index)] = copy_node(target, clone, std::move(inputs));
    }
    return cloned(value);
  }

  Value cloned(Value value) const {
    return clones_[static_cast<size_t>(value.node)].at(static_cast<size_t>(value.output));
  }

  Value in_forward(const Graph& target, Value value) const {
    if (graph_.node(value).op != Op::kInput)
      return forward_[static_cast<size_t>(value.node)].at(static_cast<size_t>(value.output));
    const std::vector<Value>& inputs = graph_.inputs();
    return target.inputs()[static_cast<size_t>(std::find(inputs.begin(), inputs.end(), value) - inputs.begin())];
  }

  const Graph& graph_;
  std::vector<bool> kept_;
  std::vector<std::vector<Value>> forward_;  // of each source node, its outputs in the target
  std::vector<std::vector<Value>> clones_;
};

}  // namespace

std::optional<RecomputePolicy> parse_recompute_policy(std::string_view name) {
  for (const RecomputePolicy policy : {RecomputePolicy::kNone, RecomputePolicy::kSelective, RecomputePolicy::kBlock})
    if (name == recompute_policy_name(policy)) return policy;
  return std::nullopt;
}

std::string_view recompute_policy_name(RecomputePolicy policy) {
  switch (policy) {
    case RecomputePolicy::kNone:
      return "none";
    case RecomputePolicy::kSelective:
      return "selective";
    case RecomputePolicy::kBlock:
      return "block";
  }
  return "";
}

std::string_view block_of_scope(std::string_view scope) {
  size_t begin = 0;
  while (begin <= scope.size()) {
    const size_t end = std::min(scope.find('.', begin), scope.size());
    const std::string_view part = scope.substr(begin, end - begin);
    const bool number =
        !part.empty() && std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (number) return scope.substr(0, end);
    begin = end + 1;
  }
  return {};
}

Graph recompute(const Graph& graph, const Recomputation& recomputation, const Mesh& mesh) {
  if (recomputation.policy == RecomputePolicy::kNone) return graph;
  Recompute pass(graph, kept_nodes(graph, recomputation, mesh));
  const Node* first = graph.nodes().data();
  const Graph rebuilt = rebuild_graph(graph, [&](Graph& target, const Node& node, const std::vector<Value>& inputs) {
    return pass.transform(target, node, inputs, static_cast<size_t>(&node - first));
  });
  // Forward nodes that only the backward pass needed have been replaced by their clones.
  return rebuild_graph(rebuilt, copy_node);
}

}  // namespace causeway::passes
