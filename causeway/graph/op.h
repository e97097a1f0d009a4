// The ops by name. graph.h declares the enumeration without its enumerators, so that a new row of the table compiles
// only what names ops in code.
#pragma once

#include "causeway/graph/graph.h"

namespace causeway::graph {

enum class Op : uint8_t {
#define CAUSEWAY_OP(name, text, kind, arity) name,
#include "causeway/graph/ops.def"
#undef CAUSEWAY_OP
};

}  // namespace causeway::graph
