#include "causeway/program/rounded_gemm.h"

#include <algorithm>

#include "causeway/graph/op.h"

namespace causeway::program {
namespace {

bool reads_fewer_numbers(const FusionProblem& problem, const MaterializedValues& materialized, Value value) {
  if (materialized.contains(value)) return false;
  const std::vector<Value> reads = values_read(problem.graph, materialized, value);
  return std::all_of(reads.begin(), reads.end(),
                     [&](Value read) { return is_small_beside(problem.graph, read, value); });
}

// A GEMM that nothing else uses, or such a one times or plus fewer numbers than it has.
bool is_scaled_gemm(const FusionProblem& problem, const MaterializedValues& materialized, Value value) {
  const Node& node = problem.graph.node(value);
  if (problem.uses(value) > 1) return false;
  if (is_gemm(node.op)) return true;
  if (materialized.contains(value) || (node.op != Op::kMul && node.op != Op::kAdd)) return false;
  for (const size_t i : {0, 1})
    if (is_scaled_gemm(problem, materialized, node.inputs[i]) &&
        reads_fewer_numbers(problem, materialized, node.inputs[1 - i]))
      return true;
  return false;
}

}  // namespace

bool rounds_gemm(const FusionProblem& problem, const MaterializedValues& materialized, Value value) {
  const Graph& graph = problem.graph;
  const Node& node = graph.node(value);
  if (node.op != Op::kCast || problem.uses(node.inputs[0]) > 1) return false;
  const DType from = graph.dtype(node.inputs[0]), to = node.outputs[0].dtype;
  if (!is_float(from) || !is_float(to) || size_bytes(to) >= size_bytes(from)) return false;
  if (is_scaled_gemm(problem, materialized, node.inputs[0])) return true;
  const Node& source = graph.node(node.inputs[0]);
  return !materialized.contains(node.inputs[0]) && source.op == Op::kAdd &&
         std::any_of(source.inputs.begin(), source.inputs.end(),
                     [&](Value term) { return is_scaled_gemm(problem, materialized, term); });
}

bool is_small_beside(const Graph& graph, Value value, Value other) {
  const Dim count = element_count(graph.shape(value)), all = element_count(graph.shape(other));
  return !count.is_constant() || !all.is_constant() || 2 * count.constant() < all.constant();
}

}  // namespace causeway::program
