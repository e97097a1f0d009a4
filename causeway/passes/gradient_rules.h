// The derivative of each primitive, for add_gradients().
#pragma once

#include <vector>

#include "causeway/passes/builder.h"

namespace causeway::passes {

// One forward node and the gradients of its outputs.
struct GradientRequest {
  Graph& graph;
  Builder build;
  Node node;                            // a copy: the graph grows while the rule runs
  std::vector<Value> values;            // the node's outputs
  std::vector<Value> output_gradients;  // of each output; invalid where nothing flows. At least one is valid.
  std::vector<bool> needed;             // the inputs whose gradient is wanted; all of float type

  Value input(size_t i) const { return node.inputs[i]; }
  const Shape& input_shape(size_t i) const { return graph.shape(node.inputs[i]); }
};

// Appends the gradient nodes: one value for each input, invalid where it is not needed or zero.
using GradientRule = std::vector<Value> (*)(const GradientRequest&);

// The rule of an op; null when no gradient passes through it.
GradientRule gradient_rule(Op op);

}  // namespace causeway::passes
