#include "causeway/codegen/kernel.h"

#include <fmt/format.h>

#include <algorithm>

#include "causeway/graph/op.h"

namespace causeway::codegen {

MaterializedValues::MaterializedValues(const Graph& graph) {
  flags_.reserve(graph.nodes().size());
  for (const Node& node : graph.nodes()) flags_.emplace_back(node.outputs.size(), is_input(node.op));
}

bool KernelRequest::computes(Value value) const {
  return std::find(members.begin(), members.end(), value) != members.end();
}

bool KernelRequest::stores(Value value) const {
  const auto position = std::find(members.begin(), members.end(), value);
  return position != members.end() && stored[static_cast<size_t>(position - members.begin())];
}

std::optional<Value> transposed_member(const Graph& graph, const KernelRequest& request, Value member) {
  const Node& node = graph.node(member);
  if (node.op != Op::kPermute || node.attributes.axes != std::vector<int64_t>{1, 0} ||
      !request.computes(node.inputs[0]))
    return std::nullopt;
  return node.inputs[0];
}

std::string Obstacle::text(const Graph& graph) const {
  const Node& node = graph.node(value);
  const std::string name = fmt::format("{} {}{}", op_name(node.op), graph.type(value).text(),
                                       node.scope.empty() ? "" : " (" + node.scope + ")");
  switch (kind) {
    case Kind::kOwnValueElsewhere:
      return fmt::format("it reads its own value {} at another position", name);
    case Kind::kNotInBothOrders:
      return fmt::format("{} is no matrix of 8-bit numbers that is stored in both orders by tiles", name);
    case Kind::kFewLongRows:
      return fmt::format("the rows of {} are too few and too long for one block each", name);
    case Kind::kLongRowSums:
      return fmt::format("the rows that {} adds up are too long for registers", name);
    case Kind::kDividedIndex:
      return fmt::format("the index of {} would have to be divided for every element", name);
    case Kind::kComputedOperand:
      return fmt::format("its operand {} is not a tensor in memory seen through movement", name);
    case Kind::kScatteredOperand:
      return fmt::format("its operand {} is not contiguous along an axis", name);
    case Kind::kOperandAcrossK:
      return fmt::format("matrix instructions want its operand {} along k", name);
    case Kind::kRowsElsewhere:
      return fmt::format("the rows of its operand {} cannot be computed by every block", name);
  }
  return "";
}

std::string_view kernel_kind_name(KernelKind kind) {
  switch (kind) {
    case KernelKind::kLoop:
      return "loop";
    case KernelKind::kColumnReduce:
      return "column_reduce";
    case KernelKind::kArgmax:
      return "argmax";
    case KernelKind::kCumsum:
      return "cumsum";
    case KernelKind::kTopk:
      return "topk";
    case KernelKind::kScatterAdd:
      return "scatter_add";
    case KernelKind::kDot:
      return "dot";
    case KernelKind::kGroupedDot:
      return "grouped_dot";
    case KernelKind::kAttentionBlockMap:
      return "attention_block_map";
    case KernelKind::kAttention:
      return "attention";
    case KernelKind::kAttentionGradient:
      return "attention_gradient";
    case KernelKind::kUser:
      return "user";
    case KernelKind::kCollective:
      return "collective";
    case KernelKind::kMessage:
      return "message";
  }
  return "";
}

}  // namespace causeway::codegen
