// Registers of warpgroup products (wgmma) in PTX, on every path from the entry (PTX ISA, "Asynchronous Warpgroup Level
// Matrix Multiply-Accumulate Instructions"):
//
// - What a product reads from registers or writes is not written by another instruction without a wgmma.fence after it.
// - No register that products under way write is read or written by anything but such products, and none that they read
//   is written, until a wgmma.wait_group that covers the group they were committed in. What was never committed is
//   covered by no wait.
#pragma once

#include <vector>

#include "causeway/codegen/checks/code_check.h"
#include "causeway/codegen/checks/ptx_text.h"

namespace causeway::codegen {

void check_ptx_products(const PtxFunction& function, FunctionCheck& check);

}  // namespace causeway::codegen
