// The parts of the reference interpreter: one function per group of ops, each evaluating one node.
#pragma once

#include <span>

#include "causeway/graph/interpreter.h"

namespace causeway::graph {

struct NodeEvaluation {
  const Node& node;
  std::span<const HostTensor* const> inputs;
  std::span<HostTensor> outputs;  // with dtype, shape and that many values, whose contents are undefined
  const SymbolBindings& bindings;
  Rounding rounding;

  const HostTensor& input(size_t index) const { return *inputs[index]; }
  HostTensor& output(size_t index = 0) const { return outputs[index]; }
};

// Dispatches on the op and rounds the results when asked to.
void evaluate_node(const NodeEvaluation& evaluation);

void round_outputs(const NodeEvaluation& evaluation);

// One rank's part in a collective: `of_group` are the operands of its group's ranks, in order, of which this rank is at
// `position`. Rounds the result when asked to.
void evaluate_collective(const NodeEvaluation& evaluation, std::span<const HostTensor* const> of_group,
                         int64_t position);

void evaluate_elementwise(const NodeEvaluation& evaluation);
void evaluate_reduction(const NodeEvaluation& evaluation);  // and argmax, cumsum
void evaluate_movement(const NodeEvaluation& evaluation);
void evaluate_indexing(const NodeEvaluation& evaluation);
void evaluate_dot(const NodeEvaluation& evaluation);
void evaluate_scaled_dot(const NodeEvaluation& evaluation);
void evaluate_grouped_dot(const NodeEvaluation& evaluation);
void evaluate_cross_entropy(const NodeEvaluation& evaluation);
void evaluate_attention(const NodeEvaluation& evaluation);  // and its gradient and block map

// Tensors for the outputs of `node`, with the sizes that `bindings` give.
std::vector<HostTensor> allocate_outputs(const Node& node, const SymbolBindings& bindings);

// `value` as the nearest int64, and an integer modulo the range of `dtype`.
int64_t to_int64(double value);
double wrap_integer(DType dtype, int64_t value);

// The larger of two; NaN when either is.
double max_or_nan(double a, double b);

[[noreturn]] void throw_evaluation_error(const NodeEvaluation& evaluation, const std::string& what);

}  // namespace causeway::graph
