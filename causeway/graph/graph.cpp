#include "causeway/graph/graph.h"

#include <algorithm>

#include "causeway/base/error.h"
#include "causeway/graph/op.h"

namespace causeway::graph {
namespace {

constexpr OpInfo kOps[] = {
#define CAUSEWAY_OP(name, text, kind, arity) {Op::name, text, OpKind::kind, arity},
#include "causeway/graph/ops.def"
#undef CAUSEWAY_OP
};

}  // namespace

std::span<const OpInfo> all_ops() { return kOps; }

const OpInfo& op_info(Op op) { return kOps[static_cast<size_t>(op)]; }

Op op_named(std::string_view name) {
  const auto* found = std::ranges::find(kOps, name, &OpInfo::name);
  if (found == std::end(kOps)) throw Error(ErrorKind::kInvalidArgument, fmt::format("there is no op '{}'", name));
  return found->op;
}

bool is_effect(Op op) { return op == Op::kSend; }

bool is_input(Op op) { return op == Op::kInput; }

int64_t preferred_attention_block() { return 64; }

bool is_elementwise(Op op) {
  switch (op_info(op).kind) {
    case OpKind::kUnary:
    case OpKind::kConvert:
    case OpKind::kBinary:
    case OpKind::kCompare:
    case OpKind::kSelect:
    case OpKind::kTernary:
      return true;
    default:
      return false;
  }
}

std::string TensorType::text() const { return fmt::format("{}{}", dtype_name(dtype), shape_text(shape)); }

Value Graph::add(Op op, std::vector<Value> inputs, Attributes attributes) {
  std::vector<TensorType> types;
  types.reserve(inputs.size());
  for (const Value input : inputs) {
    CAUSEWAY_CHECK(input.node >= 0 && static_cast<size_t>(input.node) < nodes_.size(), "input of {}", op_name(op));
    types.push_back(type(input));
  }
  std::vector<TensorType> outputs = infer_types(op, types, attributes);
  // Nodes are large, and moving them all each time that their number has doubled is a seventh of what passes take.
  constexpr size_t kGrowth = 4;
  if (nodes_.size() == nodes_.capacity()) nodes_.reserve(std::max<size_t>(1, kGrowth * nodes_.size()));
  nodes_.push_back(Node{op, std::move(inputs), std::move(attributes), std::move(outputs), scope_, backward_});
  return Value{static_cast<int32_t>(nodes_.size()) - 1, 0};
}

Value Graph::add_input(std::string name, TensorType type, Sharding sharding, bool on_host) {
  Attributes attributes;
  attributes.name = std::move(name);
  attributes.sharding = std::move(sharding);
  attributes.on_host = on_host;
  attributes.dtype = type.dtype;
  attributes.shape = std::move(type.shape);
  const Value value = add(Op::kInput, {}, std::move(attributes));
  inputs_.push_back(value);
  return value;
}

void Graph::verify(std::string_view stage) const {
  const auto check_value = [&](Value value, size_t limit, const char* role) {
    CAUSEWAY_CHECK(value.node >= 0 && static_cast<size_t>(value.node) < limit, "{}: {} refers to node {}", stage, role,
                   value.node);
    CAUSEWAY_CHECK(value.output >= 0 && static_cast<size_t>(value.output) < node(value).outputs.size(),
                   "{}: {} refers to output {} of node {}", stage, role, value.output, value.node);
  };
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    std::vector<TensorType> types;
    for (const Value input : node.inputs) {
      check_value(input, i, "an input");
      types.push_back(type(input));
    }
    std::vector<TensorType> inferred;
    try {
      inferred = infer_types(node.op, types, node.attributes);
    } catch (const Error& error) {
      throw InternalError(fmt::format("{}: node {} ({}): {}", stage, i, op_name(node.op), error.what()));
    }
    CAUSEWAY_CHECK(inferred == node.outputs, "{}: node {} ({}) has stale types", stage, i, op_name(node.op));
  }
  for (const Value output : outputs) check_value(output, nodes_.size(), "an output");
  for (const Assignment& assignment : assignments) {
    check_value(assignment.target, nodes_.size(), "an assignment's target");
    check_value(assignment.value, nodes_.size(), "an assignment's value");
    CAUSEWAY_CHECK(node(assignment.target).op == Op::kInput, "{}: assignment to node {}", stage,
                   assignment.target.node);
    CAUSEWAY_CHECK(type(assignment.target) == type(assignment.value), "{}: assignment of {} to '{}' of type {}", stage,
                   type(assignment.value).text(), node(assignment.target).attributes.name,
                   type(assignment.target).text());
  }
}

bool structurally_equal(const Graph& a, const Graph& b) {
  if (a.nodes().size() != b.nodes().size() || a.outputs != b.outputs || a.inputs() != b.inputs()) return false;
  if (a.assignments.size() != b.assignments.size()) return false;
  for (size_t i = 0; i < a.assignments.size(); ++i)
    if (a.assignments[i].target != b.assignments[i].target || a.assignments[i].value != b.assignments[i].value)
      return false;
  for (size_t i = 0; i < a.nodes().size(); ++i) {
    const Node &left = a.nodes()[i], &right = b.nodes()[i];
    if (left.op != right.op || left.inputs != right.inputs || !(left.attributes == right.attributes) ||
        left.outputs != right.outputs)
      return false;
  }
  return true;
}

}  // namespace causeway::graph
