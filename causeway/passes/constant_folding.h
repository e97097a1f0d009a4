// Elementwise ops on constants.
#pragma once

#include <optional>
#include <vector>

#include "causeway/graph/graph.h"

namespace causeway::passes {

// The value of an elementwise op whose inputs are the splats `inputs`, all of type `operand` (for select, that of its
// second and third), rounded to `result`: what the op gives for inputs rounded to `operand`. nullopt where an integer
// result wraps or saturates, or a double does not hold it, or an operand, exactly.
std::optional<double> fold_elementwise(Op op, std::vector<double> inputs, DType operand, DType result);

}  // namespace causeway::passes
