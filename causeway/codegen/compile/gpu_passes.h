// Passes over a GPU's module beside those of LLVM.
#pragma once

#include "causeway/namespaces.h"

namespace llvm {
class PassBuilder;
}

namespace causeway::codegen {

// Part of every cache key: changes with what the passes make of a module.
inline constexpr char kGpuPasses[] = "unify-extensions, infer-address-spaces, infer-alignment, load-store-vectorizer";

// Joins neighbouring loads and stores before later passes of LLVM move them apart: its own pass, after those that find
// what it goes by, the alignment that each load and store states and addresses that differ by a constant. LLVM 22's own
// run of it, in the back end, joins fewer than LLVM 19's.
void add_gpu_passes(llvm::PassBuilder& builder);

}  // namespace causeway::codegen
