// What holds of a kernel's PTX on sm_80 and sm_90a, on every path from its entry: the waits and fences of cp.async,
// bulk copies, mbarriers and the async proxy (ptx_copies.h), and those of warpgroup MMAs (ptx_wgmma.h). ptxas
// keeps the order of what is asynchronous as the text has it, and says by itself where it had to add waits
// (KernelResources::notes).
#pragma once

#include <string_view>
#include <vector>

#include "causeway/codegen/checks/code_check.h"

namespace causeway::codegen {

// Every function of the text, by name; places are its lines. Throws Error(kCorrupt) for what is no PTX.
std::vector<FunctionCheck> check_ptx(std::string_view text);

}  // namespace causeway::codegen
