// Epilogues that cost no time.
#pragma once

#include "causeway/codegen/kernel.h"
#include "causeway/graph/graph.h"

namespace causeway::program {

// Whether a GEMM for wgmma can compute `value`, an elementwise value of its result, while the next tile is multiplied:
// the operands have 16 bits, and TMA stores the results, of which there are two at most (gemm_hopper.h). Only of a
// target whose rules say that epilogues can be hidden.
bool may_hide_epilogue(const Graph& graph, const KernelRequest& gemm, Value value);

}  // namespace causeway::program
