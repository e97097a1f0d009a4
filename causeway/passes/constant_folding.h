// Elementwise ops on constants.
#pragma once

#include <optional>
#include <vector>

#include "causeway/graph/graph.h"

namespace causeway {

// The value of an elementwise op whose inputs are the splats `inputs`, all of type `operand` (for select, that of its
// second and third), rounded to `result`. nullopt where the op has no defined result (integer division by zero, an
// integer out of range) or a double does not hold it exactly.
std::optional<double> fold_elementwise(Op op, const std::vector<double>& inputs, DType operand, DType result);

}  // namespace causeway
