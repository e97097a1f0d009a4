// Products of f32 values that may round their operands to tf32: the attribute is set on every dot of f32 operands.
// Attention, which multiplies inside its own kernels, stays in f32.
#pragma once

#include "causeway/graph/graph.h"

namespace causeway::passes {

Graph tf32_products(const Graph& graph);

}  // namespace causeway::passes
