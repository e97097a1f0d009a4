#include "causeway/program/fusion_problem.h"

#include <algorithm>
#include <set>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/codegen/gpu/gemm_problem.h"
#include "causeway/graph/op.h"
#include "causeway/graph/rewrite.h"

namespace causeway::program {

FusionProblem::FusionProblem(const Graph& graph, const Target& target, bool fixed_order)
    : graph(graph),
      target(target),
      fixed_order(fixed_order),
      rules(fusion_rules(target, fixed_order)),
      needed(needed_nodes(graph)),
      use_counts(count_uses(graph)) {}

bool is_gemm(Op op) { return op == Op::kDot || op == Op::kScaledDot; }

bool is_expandable(Op op) {
  const OpKind kind = op_info(op).kind;
  return is_elementwise(op) || kind == OpKind::kMovement || op == Op::kConstant || op == Op::kIota ||
         op == Op::kRandomBits || op == Op::kGather;
}

bool reduces_trailing_axes(const Graph& graph, const Node& node) {
  const size_t rank = graph.shape(node.inputs[0]).size();
  return node.attributes.axes.front() == static_cast<int64_t>(rank - node.attributes.axes.size());
}

bool has_reductions(const Graph& graph, const KernelRequest& request) {
  return std::any_of(request.members.begin(), request.members.end(),
                     [&](Value member) { return op_info(graph.node(member).op).kind == OpKind::kReduce; });
}

bool is_skinny_gemm(const Graph& graph, const KernelRequest& gemm) {
  const Shape& shape = graph.shape(gemm.members.front());
  return codegen::is_skinny_gemm_side(shape[shape.size() - 2]);
}

std::vector<Value> values_read(const Graph& graph, const MaterializedValues& materialized, Value value) {
  std::vector<Value> found;
  std::set<Value> visited;
  std::vector<Value> pending = graph.node(value).inputs;
  while (!pending.empty()) {
    const Value next = pending.back();
    pending.pop_back();
    if (!visited.insert(next).second) continue;
    if (materialized.contains(next)) {
      found.push_back(next);
    } else {
      const std::vector<Value>& inputs = graph.node(next).inputs;
      pending.insert(pending.end(), inputs.begin(), inputs.end());
    }
  }
  return found;
}

bool depends_on(const Graph& graph, const MaterializedValues& materialized, Value value, Value source) {
  if (value == source) return true;
  if (materialized.contains(value)) return false;
  const std::vector<Value> read = values_read(graph, materialized, value);
  return std::find(read.begin(), read.end(), source) != read.end();
}

Value below_movement(const Graph& graph, const MaterializedValues& materialized, Value value) {
  while (!materialized.contains(value) &&
         (graph.node(value).op == Op::kReshape || graph.node(value).op == Op::kPermute ||
          graph.node(value).op == Op::kBroadcast))
    value = graph.node(value).inputs[0];
  return value;
}

KernelRequest lone_request(const FusionProblem& problem, int32_t node_index, std::vector<Value> members) {
  const Node& node = problem.graph.node(node_index);
  KernelRequest request;
  request.fixed_order = problem.fixed_order;
  request.stored.assign(members.size(), true);
  request.members = std::move(members);
  switch (node.op) {
    case Op::kReduceSum:
    case Op::kReduceMax: {
      const Shape& shape = problem.graph.shape(node.inputs[0]);
      const bool last_kept = node.attributes.axes.back() + 1 != static_cast<int64_t>(shape.size());
      request.rows = element_count(node.outputs[0].shape);
      request.columns = Dim(1);
      for (const int64_t axis : node.attributes.axes) request.columns *= shape[static_cast<size_t>(axis)];
      if (last_kept && !request.columns.is_constant(1)) request.kind = KernelKind::kColumnReduce;
      return request;
    }
    case Op::kArgmax:
      request.kind = KernelKind::kArgmax;
      return request;
    case Op::kCumsum:
      request.kind = KernelKind::kCumsum;
      return request;
    case Op::kTopk:
      request.kind = KernelKind::kTopk;
      return request;
    case Op::kScatterAdd:
      request.kind = KernelKind::kScatterAdd;
      return request;
    case Op::kDot:
    case Op::kScaledDot:
      request.kind = KernelKind::kDot;
      return request;
    case Op::kGroupedDot:
      request.kind = KernelKind::kGroupedDot;
      return request;
    case Op::kAttention:
      request.kind = KernelKind::kAttention;
      return request;
    case Op::kAttentionGradient:
      request.kind = KernelKind::kAttentionGradient;
      return request;
    case Op::kAttentionBlockMap:
      request.kind = KernelKind::kAttentionBlockMap;
      return request;
    case Op::kUserKernel:
      request.kind = KernelKind::kUser;
      return request;
    case Op::kAllReduce:
    case Op::kAllGather:
    case Op::kReduceScatter:
    case Op::kAllToAll:
      request.kind = KernelKind::kCollective;
      return request;
    case Op::kSend:
    case Op::kReceive:
      request.kind = KernelKind::kMessage;
      return request;
    default:
      CAUSEWAY_CHECK(is_expandable(node.op), "no kernel computes {}", op_name(node.op));
      request.columns = element_count(node.outputs[0].shape);
      return request;
  }
}

}  // namespace causeway::program
