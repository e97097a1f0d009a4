// Which ops multiply a weight, and through which a GEMM's operand may still be one.
#pragma once

#include "causeway/graph/graph.h"

namespace causeway::passes {

// Operands 0 and 1 of these may be weights.
bool multiplies_weights(Op op);

// The values of the result are those of the operand.
bool only_moves(Op op);

}  // namespace causeway::passes
