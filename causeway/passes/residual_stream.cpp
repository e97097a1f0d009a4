#include "causeway/passes/residual_stream.h"

#include <algorithm>

#include "causeway/graph/op.h"

namespace causeway::passes {
namespace {

bool is_template(const Graph& graph, int32_t index) { return op_info(graph.node(index).op).kind == OpKind::kTemplate; }

// Ops that only change where an element lies or how it is stored: the stream is looked for behind them.
Value skip_movement(const Graph& graph, Value value) {
  while (true) {
    const Op op = graph.node(value).op;
    if (op != Op::kCast && op != Op::kReshape) return value;
    value = graph.node(value).inputs[0];
  }
}

// Whether `from` is computed from `ancestor` with a template op between them. Only nodes after the ancestor can be on
// the way, which keeps the search within one block.
bool computed_through_template(const Graph& graph, Value from, Value ancestor) {
  enum : uint8_t { kUnseen, kPlain, kThrough };  // how the search reached a node
  const auto first = static_cast<size_t>(ancestor.node);
  std::vector<uint8_t> state(static_cast<size_t>(from.node) - first + 1, kUnseen);
  state.back() = kPlain;
  for (size_t offset = state.size(); offset-- > 1;) {
    if (state[offset] == kUnseen) continue;
    const auto index = static_cast<int32_t>(first + offset);
    const uint8_t reached = is_template(graph, index) ? static_cast<uint8_t>(kThrough) : state[offset];
    for (const Value input : graph.node(index).inputs) {
      if (input == ancestor && reached == kThrough) return true;
      if (input.node < ancestor.node) continue;
      uint8_t& next = state[static_cast<size_t>(input.node) - first];
      next = std::max(next, reached);
    }
  }
  return false;
}

}  // namespace

std::vector<bool> residual_additions(const Graph& graph) {
  std::vector<bool> result(graph.nodes().size());
  for (size_t i = 0; i < result.size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (node.op != Op::kAdd || !is_float(node.outputs[0].dtype)) continue;
    Value earlier = skip_movement(graph, node.inputs[0]), later = skip_movement(graph, node.inputs[1]);
    if (later < earlier) std::swap(earlier, later);
    if (graph.node(earlier).op == Op::kInput || graph.node(earlier).op == Op::kConstant) continue;
    result[i] = earlier.node < later.node && computed_through_template(graph, later, earlier);
  }
  return result;
}

}  // namespace causeway::passes
