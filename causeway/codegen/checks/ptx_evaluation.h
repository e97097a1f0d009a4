// What an instruction of PTX computes from values of which something is known.
#pragma once

#include "causeway/codegen/checks/ptx_text.h"
#include "causeway/codegen/checks/ptx_value.h"
#include "causeway/codegen/checks/ptx_values.h"

namespace causeway::codegen {

// Of its first result, with its operands as `values` knows them in that state; unknown for what is no integer.
PtxValue evaluate_ptx(const PtxInstruction& one, const PtxValues& values, const PtxValues::State& state);

}  // namespace causeway::codegen
