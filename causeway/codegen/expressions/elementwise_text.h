// Elementwise ops as C++ expressions.
#pragma once

#include <string>
#include <vector>

#include "causeway/codegen/expressions/element_walk.h"
#include "causeway/graph/graph.h"

namespace causeway::codegen {

// The op of `inputs`, variables of their compute types, as an expression that is not rounded. `floating`: its result is
// a float. Of tanh, erf and casts the emitter knows more (ExpressionEmitter).
std::string elementwise_text(Op op, bool floating, const std::vector<ElementValue>& inputs);

}  // namespace causeway::codegen
