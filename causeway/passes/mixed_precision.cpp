#include "causeway/passes/mixed_precision.h"

#include "causeway/base/error.h"
#include "causeway/graph/op.h"
#include "causeway/graph/rewrite.h"
#include "causeway/passes/builder.h"
#include "causeway/passes/joined_gradients.h"
#include "causeway/passes/residual_stream.h"
#include "causeway/passes/weight_operands.h"

namespace causeway::passes {
namespace {

bool runs_in_compute_type(Op op) {
  return op == Op::kDot || op == Op::kGroupedDot || op == Op::kAttention || op == Op::kAttentionGradient ||
         op == Op::kLinearCrossEntropy;
}

// How many leading inputs of a template are cast: q, k, v and dout; x and weight; a and b.
size_t cast_inputs(Op op) {
  switch (op) {
    case Op::kAttention:
      return 3;
    case Op::kAttentionGradient:
      return 4;
    default:
      return 2;
  }
}

// Which nodes' results reach an input of a template op by way of elementwise and movement ops.
std::vector<bool> nodes_feeding_templates(const Graph& graph) {
  std::vector<bool> feeds(graph.nodes().size());
  for (size_t i = feeds.size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    const bool compute = runs_in_compute_type(node.op);
    const bool passes_on = feeds[i] && (is_elementwise(node.op) || op_info(node.op).kind == OpKind::kMovement);
    if (!compute && !passes_on) continue;
    const size_t count = compute ? cast_inputs(node.op) : node.inputs.size();
    for (size_t k = 0; k < count; ++k) feeds[static_cast<size_t>(node.inputs[k].node)] = true;
  }
  return feeds;
}

// How the nodes' first outputs are used.
struct Uses {
  std::vector<bool> cast;     // by a template, seen through reshapes, slices and permutes at most
  std::vector<bool> in_full;  // by anything else than such a template or a sum
};

Uses count_kinds_of_uses(const Graph& graph) {
  Uses uses{std::vector<bool>(graph.nodes().size()), std::vector<bool>(graph.nodes().size())};
  for (size_t i = graph.nodes().size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      if (node.inputs[k].output != 0) continue;
      const auto input = static_cast<size_t>(node.inputs[k].node);
      const bool compute = runs_in_compute_type(node.op) && k < cast_inputs(node.op);
      if (compute || (only_moves(node.op) && uses.cast[i])) uses.cast[input] = true;
      if (!compute && node.op != Op::kReduceSum && !(only_moves(node.op) && !uses.in_full[i]))
        uses.in_full[input] = true;
    }
  }
  for (const Value output : graph.outputs) uses.in_full[static_cast<size_t>(output.node)] = true;
  for (const Assignment& assignment : graph.assignments)
    uses.in_full[static_cast<size_t>(assignment.value.node)] = true;
  return uses;
}

// Which nodes are sums over leading axes of an f32 value that is in memory twice, in f32 for what is computed with it
// and cast for a GEMM: the gradient of a bias that is added to the residual stream. Where the value has no other
// use in f32, the sum is computed along with the cast, unless that moves what attention stores in the type anyway.
std::vector<bool> sums_of_cast_values(const Graph& graph) {
  const Uses uses = count_kinds_of_uses(graph);
  std::vector<bool> found(graph.nodes().size());
  for (size_t i = 0; i < found.size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (node.op != Op::kReduceSum || node.outputs[0].dtype != DType::kF32) continue;
    const Value summed = node.inputs[0];
    const auto source = static_cast<size_t>(summed.node);
    const bool keeps_last_axis = node.attributes.axes.back() + 1 != static_cast<int64_t>(graph.shape(summed).size());
    found[i] = keeps_last_axis && summed.output == 0 && graph.node(summed).op != Op::kInput && uses.cast[source] &&
               (uses.in_full[source] || find_joined_gradients(graph, summed));
  }
  return found;
}

class MixedPrecision {
 public:
  MixedPrecision(const Graph& graph, const MixedPrecisionOptions& options)
      : options_(options), feeds_template_(nodes_feeding_templates(graph)), sums_cast_(sums_of_cast_values(graph)) {
    if (options.residual != DType::kF32) residual_ = residual_additions(graph);
  }

  std::vector<Value> transform(Graph& target, const Node& node, std::vector<Value> inputs, size_t index) const {
    const Builder build(target);
    if (!runs_in_compute_type(node.op)) {
      if (sums_cast_[index]) inputs[0] = build.cast(narrow_below_movement(target, inputs[0]), DType::kF32);
      std::vector<Value> outputs = copy_node(target, node, std::move(inputs));
      if (!residual_.empty() && residual_[index] && feeds_template_[index] && node.outputs[0].dtype == DType::kF32)
        outputs[0] = build.cast(build.cast(outputs[0], options_.residual), DType::kF32);
      return outputs;
    }
    for (size_t i = 0; i < cast_inputs(node.op); ++i)
      if (target.dtype(inputs[i]) == DType::kF32) inputs[i] = narrow_below_movement(target, inputs[i]);
    // Operands of one type where the op asks for it: an input that already was narrower than f32 decides.
    if (node.op != Op::kLinearCrossEntropy)
      for (size_t i = 1; i < cast_inputs(node.op); ++i) inputs[i] = build.cast(inputs[i], target.dtype(inputs[0]));
    Node narrow = node;
    if ((node.op == Op::kDot || node.op == Op::kGroupedDot) && node.outputs[0].dtype == DType::kF32 &&
        feeds_template_[index])
      narrow.attributes.dtype = options_.compute;
    std::vector<Value> outputs = copy_node(target, narrow, std::move(inputs));
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = build.cast(outputs[i], node.outputs[i].dtype);
    return outputs;
  }

 private:
  // The cast goes below reshapes, slices and permutes, so that the parts of one tensor (queries, keys and values of one
  // projection) share it.
  Value narrow_below_movement(Graph& target, Value value) const {
    const Node node = target.node(value);
    if (!only_moves(node.op)) return Builder(target).cast(value, options_.compute);
    return target.add(node.op, {narrow_below_movement(target, node.inputs[0])}, node.attributes);
  }

  const MixedPrecisionOptions& options_;
  std::vector<bool> feeds_template_;
  std::vector<bool> sums_cast_;
  std::vector<bool> residual_;
};

}  // namespace

Graph mixed_precision(const Graph& graph, const MixedPrecisionOptions& options) {
  if (options.compute != DType::kF32 && options.compute != DType::kBF16 && options.compute != DType::kF16)
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("mixed precision cannot compute in {}", dtype_name(options.compute)), "precision",
                "use f32, bf16 or f16");
  if (options.residual != DType::kF32 && options.residual != options.compute)
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("the residual stream cannot be stored in {} when computing in {}",
                            dtype_name(options.residual), dtype_name(options.compute)),
                "precision", "store it in f32 or in the compute type");
  if (options.compute == DType::kF32) return graph;
  const MixedPrecision pass(graph, options);
  // Nodes are handed to the transform by reference into the list: their position is their index.
  const Node* first = graph.nodes().data();
  return rebuild_graph(graph, [&](Graph& target, const Node& node, const std::vector<Value>& inputs) {
    return pass.transform(target, node, inputs, static_cast<size_t>(&node - first));
  });
}

}  // namespace causeway::passes
