// Elementwise ops on constants.
#pragma once

#include <array>
#include <optional>

#include "causeway/graph/graph.h"

namespace causeway::passes {

// The operands of an elementwise op; 0 for those that it has not.
using ElementwiseInputs = std::array<double, 3>;

// The value of an elementwise op whose inputs are the splats `inputs`, all of type `operand` (for select, that of its
// second and third), rounded to `result`: what the op gives for inputs rounded to `operand`. nullopt where an integer
// result wraps or saturates, or a double does not hold it, or an operand, exactly.
std::optional<double> fold_elementwise(Op op, ElementwiseInputs inputs, DType operand, DType result);

// The same where an integer result wraps or saturates as its type does. nullopt where a double does not hold it, or an
// operand, exactly, and for bitcasts.
std::optional<double> evaluate_elementwise(Op op, const ElementwiseInputs& inputs, DType operand, DType result);

}  // namespace causeway::passes
