// The part of ptx_copies.h that is about bulk copies, mbarriers and the async proxy.
#pragma once

#include "causeway/codegen/checks/code_check.h"
#include "causeway/codegen/checks/ptx_text.h"

namespace causeway::codegen {

void check_ptx_bulk_copies(const PtxModule& module, const PtxFunction& function, FunctionCheck& check);

}  // namespace causeway::codegen
