// Which ops multiply a weight, and through which a GEMM's operand may still be one.
#pragma once

#include "causeway/graph/graph.h"

namespace causeway::passes {

// Operands 0 and 1 of these may be weights.
inline bool multiplies_weights(Op op) { return op == Op::kDot || op == Op::kLinearCrossEntropy; }

// The values of the result are those of the operand.
inline bool only_moves(Op op) { return op == Op::kReshape || op == Op::kSlice || op == Op::kPermute; }

}  // namespace causeway::passes
