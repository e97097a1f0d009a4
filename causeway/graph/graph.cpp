#include "causeway/graph/graph.h"

#include <algorithm>

#include "causeway/base/error.h"
#include "causeway/graph/user_kernel.h"

namespace causeway::graph {
namespace {

constexpr OpInfo kOps[] = {
#define CAUSEWAY_OP(name, text, kind, arity) {Op::name, text, OpKind::kind, arity},
#include "causeway/graph/ops.def"
#undef CAUSEWAY_OP
};

bool same_graph(const std::shared_ptr<const Graph>& a, const std::shared_ptr<const Graph>& b) {
  if (a == b) return true;
  return a != nullptr && b != nullptr && structurally_equal(*a, *b);
}

bool same_spec(const std::shared_ptr<const AttentionSpec>& a, const std::shared_ptr<const AttentionSpec>& b) {
  if (a == b) return true;
  if (a == nullptr || b == nullptr) return false;
  return a->scale == b->scale && a->block_q == b->block_q && a->block_k == b->block_k &&
         a->has_block_map == b->has_block_map && same_graph(a->score, b->score) &&
         same_graph(a->score_gradient, b->score_gradient) && same_graph(a->mask, b->mask);
}

}  // namespace

std::span<const OpInfo> all_ops() { return kOps; }

const OpInfo& op_info(Op op) { return kOps[static_cast<size_t>(op)]; }

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

bool same_computation(const UserKernelSpec& a, const UserKernelSpec& b) {
  return a.name == b.name && a.source == b.source && a.outputs == b.outputs && a.sizes == b.sizes &&
         a.tasks == b.tasks && a.threads == b.threads && a.shared_bytes == b.shared_bytes;
}

bool Attributes::operator==(const Attributes& other) const {
  return axes == other.axes && shape == other.shape && start == other.start && limit == other.limit &&
         strides == other.strides && (value == other.value || (value != value && other.value != other.value)) &&
         dtype == other.dtype && transpose_a == other.transpose_a && transpose_b == other.transpose_b &&
         tf32 == other.tf32 && count == other.count && stream == other.stream && name == other.name &&
         same_spec(attention, other.attention) &&
         (user_kernel == other.user_kernel || (user_kernel != nullptr && other.user_kernel != nullptr &&
                                               same_computation(*user_kernel, *other.user_kernel)));
}

Value Graph::add(Op op, std::vector<Value> inputs, Attributes attributes) {
  std::vector<TensorType> types;
  types.reserve(inputs.size());
  for (const Value input : inputs) {
    CAUSEWAY_CHECK(input.node >= 0 && static_cast<size_t>(input.node) < nodes_.size(), "input of {}", op_name(op));
    types.push_back(type(input));
  }
  std::vector<TensorType> outputs = infer_types(op, types, attributes);
  nodes_.push_back(Node{op, std::move(inputs), std::move(attributes), std::move(outputs), scope_, backward_});
  return Value{static_cast<int32_t>(nodes_.size()) - 1, 0};
}

Value Graph::add_input(std::string name, TensorType type) {
  Attributes attributes;
  attributes.name = std::move(name);
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
