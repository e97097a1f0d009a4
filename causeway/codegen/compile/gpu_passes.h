// Passes over a GPU's module beside those of LLVM.
#pragma once

#include "causeway/namespaces.h"

namespace llvm {
class PassBuilder;
class TargetMachine;
class TargetPassConfig;
}  // namespace llvm

namespace causeway::codegen {

// Part of every cache key: changes with what the passes make of a module.
inline constexpr char kGpuPasses[] =
    "unify-extensions, infer-address-spaces, infer-alignment, load-store-vectorizer, sink in warpgroups, "
    "speculatable nvvm intrinsics, no machine-licm for NVPTX";

// Joins neighbouring loads and stores before later passes of LLVM move them apart: its own pass, after those that find
// what it goes by, the alignment that each load and store states and addresses that differ by a constant. LLVM 22's own
// run of it, in the back end, joins fewer than LLVM 19's. At the end, kernels with setmaxnreg have instructions moved
// to where their results are used.
void add_gpu_passes(llvm::PassBuilder& builder);

// Of the back end's passes, leaves out what makes PTX worse: LLVM 22 moves constants and addresses out of loops, which
// ptxas does as far as registers suffice, and does not undo.
void choose_back_end_passes(const llvm::TargetMachine& machine, llvm::TargetPassConfig& passes);

}  // namespace causeway::codegen
