#include "causeway/passes/weight_operands.h"

#include "causeway/graph/op.h"

namespace causeway::passes {

bool multiplies_weights(Op op) { return op == Op::kDot || op == Op::kGroupedDot || op == Op::kLinearCrossEntropy; }

bool only_moves(Op op) { return op == Op::kReshape || op == Op::kSlice || op == Op::kPermute; }

}  // namespace causeway::passes
