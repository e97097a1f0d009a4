#include "causeway/passes/sparse_gradients.h"

#include <limits>

#include "causeway/graph/op.h"
#include "causeway/graph/rewrite.h"
#include "causeway/passes/builder.h"

namespace causeway::passes {
namespace {

// By node, whether something other than an elementwise op needs its value as a whole.
std::vector<bool> needed_whole(const Graph& graph) {
  std::vector<bool> whole(graph.nodes().size());
  for (const Value output : graph.outputs) whole[static_cast<size_t>(output.node)] = true;
  for (const Assignment& assignment : graph.assignments) whole[static_cast<size_t>(assignment.value.node)] = true;
  for (const Node& node : graph.nodes()) {
    if (is_elementwise(node.op)) continue;
    for (const Value input : node.inputs) whole[static_cast<size_t>(input.node)] = true;
  }
  return whole;
}

bool is_zero(const Graph& graph, Value value) {
  const Node& node = graph.node(value);
  return node.op == Op::kConstant && node.attributes.value == 0;
}

bool is_sparse(const Graph& graph, const Node& node, int64_t most_updates) {
  if (node.op != Op::kScatterAdd || node.attributes.replaces || node.attributes.axes.front() != 0 ||
      !is_zero(graph, node.inputs[0]))
    return false;
  const Dim rows = graph.shape(node.inputs[0])[0], updates = element_count(graph.shape(node.inputs[1]));
  return rows.is_constant() && rows.constant() <= std::numeric_limits<int32_t>::max() && updates.is_constant() &&
         updates.constant() > 0 && updates.constant() <= most_updates && 2 * updates.constant() < rows.constant();
}

// What gives the same as scatter_add(zeros of `whole`, indices, updates).
Value look_up_rows(const Builder& build, const Shape& whole, Value indices, Value updates) {
  const Dim count = element_count(build.shape(indices));
  const Value row = build.reshape(build.cast(indices, DType::kI32), {count});
  // An update's slot is the number of the last one of its row.
  const Shape pairs = {count, count};
  const Value same = build.equal(build.broadcast_over(row, pairs, {1}), build.broadcast_over(row, pairs, {0}));
  const Value number = build.iota(DType::kI32, pairs, 1);
  const Value slot = build.reduce_max(build.select(same, number, build.constant_like(number, -1)), {1});
  Shape slots = whole;
  slots[0] = count + Dim(1);  // the last one stays zero
  const DType dtype = build.dtype(updates);
  const Value sums =
      build.scatter_add(build.constant(dtype, slots, 0), build.reshape(slot, build.shape(indices)), updates, 0);
  // Of each row, which is that of the last slot but for the one update that changes it.
  const auto last = static_cast<double>(count.constant());
  const Value own = build.iota(DType::kI32, {count}, 0);
  const Value change =
      build.select(build.equal(slot, own), build.sub(own, build.constant_like(own, last)), build.zeros_like(own));
  const Value slot_of_row = build.scatter_add(build.constant(DType::kI32, {whole[0]}, last), row, change, 0);
  return build.gather(sums, slot_of_row, 0);
}

}  // namespace

Graph sparse_gradients(const Graph& graph, int64_t most_updates) {
  const std::vector<bool> whole = needed_whole(graph);
  const Node* first = graph.nodes().data();
  return rebuild_graph(graph, [&](Graph& target, const Node& node, const std::vector<Value>& inputs) {
    if (!is_sparse(graph, node, most_updates) || whole[static_cast<size_t>(&node - first)])
      return copy_node(target, node, inputs);
    return std::vector<Value>{look_up_rows(Builder(target), node.outputs[0].shape, inputs[1], inputs[2])};
  });
}

}  // namespace causeway::passes
