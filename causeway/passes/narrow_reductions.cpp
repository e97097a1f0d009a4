#include "causeway/passes/narrow_reductions.h"

#include <algorithm>

#include "causeway/graph/op.h"
#include "causeway/graph/rewrite.h"
#include "causeway/passes/builder.h"

namespace causeway::passes {
namespace {

// Up to so many terms are added one by one, in the loop that uses their sum; more are a reduction of their own.
constexpr int64_t kMostInOneLoop = 16;

// By node, whether it is used, and by nothing but casts to bf16.
std::vector<bool> used_rounded_alone(const Graph& graph) {
  std::vector<bool> used(graph.nodes().size()), rounded(graph.nodes().size(), true);
  for (const Node& node : graph.nodes())
    for (const Value input : node.inputs) {
      const auto i = static_cast<size_t>(input.node);
      used[i] = true;
      if (node.op != Op::kCast || node.outputs[0].dtype != DType::kBF16) rounded[i] = false;
    }
  for (const Value output : graph.outputs) rounded[static_cast<size_t>(output.node)] = false;
  for (const Assignment& assignment : graph.assignments) rounded[static_cast<size_t>(assignment.value.node)] = false;
  for (size_t i = 0; i < used.size(); ++i) rounded[i] = rounded[i] && used[i];
  return rounded;
}

// Rounded where its movements begin: a GEMM stores its result so.
Value rounded_before_movements(const Builder& build, Value value) {
  const Node node = build.graph().node(value);
  if (node.op != Op::kReshape && node.op != Op::kPermute) return build.cast(value, DType::kBF16);
  return build.graph().add(node.op, {rounded_before_movements(build, node.inputs[0])}, node.attributes);
}

// In f32, in the order of the ranks. `terms`: bf16 [ranks, ...].
Value sum_of_terms(const Builder& build, Value terms) {
  const int64_t ranks = build.shape(terms).front().constant();
  if (ranks > kMostInOneLoop) return build.reduce_sum(build.cast(terms, DType::kF32), {0});
  const Shape part(build.shape(terms).begin() + 1, build.shape(terms).end());
  Value sum;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const Value term =
        build.cast(build.reshape(build.slice_axis(terms, 0, Dim(rank), Dim(rank + 1)), part), DType::kF32);
    sum = sum.valid() ? build.add(sum, term) : term;
  }
  return sum;
}

}  // namespace

Graph narrow_reductions(const Graph& graph, const Mesh& mesh) {
  const std::vector<bool> rounded = used_rounded_alone(graph);
  const auto gathers_weights = [&](const std::string& group) {
    return std::ranges::all_of(group_axes(mesh, group), [&](size_t axis) { return mesh.axes[axis].gathers_weights; });
  };
  return rebuild_graph(graph, [&](Graph& target, const Node& node, const std::vector<Value>& inputs) {
    if (node.op != Op::kReduceScatter || !gathers_weights(node.attributes.group))
      return copy_node(target, node, inputs);
    const DType dtype = node.outputs[0].dtype;
    const bool narrows = dtype == DType::kF32 && rounded[static_cast<size_t>(&node - graph.nodes().data())];
    if (!narrows && dtype != DType::kBF16) return copy_node(target, node, inputs);
    const Builder build(target);
    const Value terms = narrows ? rounded_before_movements(build, inputs[0]) : inputs[0];
    const Value sum = sum_of_terms(build, target.add(Op::kAllToAll, {terms}, node.attributes));
    return std::vector<Value>{narrows ? sum : build.cast(sum, DType::kBF16)};
  });
}

}  // namespace causeway::passes
