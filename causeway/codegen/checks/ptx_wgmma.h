// Registers of warpgroup MMAs (wgmma) in PTX, on every path from the entry (PTX ISA, "Asynchronous Warpgroup Level
// Matrix Multiply-Accumulate Instructions"):
//
// - What an MMA reads from registers or writes is not written by another instruction without a wgmma.fence after it.
// - No register that MMAs under way write is read or written by anything but such MMAs, and none that they read
//   is written, until a wgmma.wait_group that covers the group they were committed in. What was never committed is
//   covered by no wait.
#pragma once

#include <vector>

#include "causeway/codegen/checks/code_check.h"
#include "causeway/codegen/checks/ptx_text.h"

namespace causeway::codegen {

void check_ptx_wgmma(const PtxFunction& function, FunctionCheck& check);

}  // namespace causeway::codegen
