// Interval arithmetic over elementwise ops: what a node's value can be when its inputs lie in given intervals. Integers
// as the reference interpreter computes them.
#pragma once

#include <span>

#include "causeway/graph/graph.h"
#include "causeway/kernels/interval.h"

namespace causeway::passes {

// What a value can be. Finite ends exclude NaN; infinite ones exclude nothing.
using Bounds = Interval<double>;

bool is_finite(const Bounds& bounds);

// Whatever a value of this type can be: the integers of the type, 0 and 1, or every float and NaN.
Bounds all_values(DType dtype);

// Holds every value that `node` can take when input k lies in inputs[k]; all_values() for ops without a rule. Wider
// than necessary where inputs depend on each other. `input_types` are the dtypes of the inputs.
Bounds bound_elementwise(const Node& node, std::span<const Bounds> inputs, std::span<const DType> input_types);

}  // namespace causeway::passes
