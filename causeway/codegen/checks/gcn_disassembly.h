// The functions of an AMD code object, read by the embedded LLVM's disassembler. Built without RTTI, as LLVM is.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "causeway/codegen/checks/gcn_instruction.h"

namespace causeway::codegen {

// `code`: the bytes of one function. `processor`: "gfx942". Thread-safe.
GcnFunction disassemble_gcn(const std::string& name, std::string_view code, std::string_view processor);

}  // namespace causeway::codegen
