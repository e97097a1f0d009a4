// The rules of canonicalize() for movement ops and for the operands of dot.
#pragma once

#include <optional>
#include <vector>

#include "causeway/passes/builder.h"

namespace causeway::passes {

// A simpler value equal to `op` applied to `inputs`; nullopt when there is none. New nodes are appended.
std::optional<Value> simplify_movement(const Builder& build, Op op, const std::vector<Value>& inputs,
                                       const Attributes& attributes);
std::optional<Value> simplify_dot(const Builder& build, const std::vector<Value>& inputs, const Attributes& attributes);

}  // namespace causeway::passes
