// Reverse-mode differentiation on the graph.
//
// Backward nodes are appended after the forward ones, carry the scope of the forward node they differentiate (so that
// messages name the layer) and are marked Node::backward. Contributions to one value are added in reverse order of its
// uses, so the same graph always gives the same sums.
//
// Conventions where a derivative is not unique or not defined:
//   abs at 0: 0.  floor, comparisons, integers, bitcast, argmax: no gradient passes.
//   max, min: all of it to the first operand where it is the result (ties included), else to the second.
//   reduce_max: shared equally among the elements that attain the maximum.
//   rem: as a - b * trunc(a / b) with the truncation held constant.
//   pow: d/db is 0 where a <= 0.  gather: a read outside the axis passes no gradient.
//   topk: to the chosen elements.
// The gradient of a value has its dtype. Second derivatives of attention and linear_cross_entropy, and gradients of
// tensors captured by an attention score or of cross-entropy token weights, are not defined: asking for one is an
// Error(kUnsupported) that names what was asked for.
#pragma once

#include <span>
#include <vector>

#include "causeway/graph/graph.h"

namespace causeway::passes {

// Appends nodes that compute d loss / d wrt[i] and returns those values: zeros where the loss does not depend on
// wrt[i]. `loss` is a scalar float; wrt are floats (inputs or results). Nothing flows through `stop` values: they count
// as constants. Throws Error(kInvalidArgument) when a type does not fit.
std::vector<Value> add_gradients(Graph& graph, Value loss, std::span<const Value> wrt,
                                 std::span<const Value> stop = {});

// The same for sum_i <outputs[i], output_gradients[i]>: output_gradients[i] has the type of outputs[i].
std::vector<Value> add_gradients(Graph& graph, std::span<const Value> outputs, std::span<const Value> output_gradients,
                                 std::span<const Value> wrt, std::span<const Value> stop = {});

}  // namespace causeway::passes
