// What a GPU's back end has to be told about a module, between clang's front end and LLVM: launch bounds, which
// parameters may be addressed in place, visibility. Built without RTTI, as the embedded compiler is.
#pragma once

#include <string>

#include "causeway/namespaces.h"

namespace llvm {
class Module;
class PassBuilder;
}

namespace causeway::codegen {

// Kernels carry annotate("causeway_launch_bounds THREADS BLOCKS"): each back end takes it as attributes of its
// own. The kernels' by-value arguments become grid constants on NVPTX, so that the address of a tensor map inside can
// be taken.
void apply_launch_bounds(llvm::Module& module);

// Says of asm text without side effects that it comes to an end: loads before and after it may then be merged.
void mark_pure_asm(llvm::Module& module);

// Joins neighbouring loads and stores before later passes of LLVM move them apart: an IR pass, after those that find what
// it goes by, the alignment that each load and store states and addresses that differ by a constant. LLVM 22's own, in
// the back end, joins fewer than LLVM 19's.
void add_gpu_passes(llvm::PassBuilder& builder);

// Names the first function or intrinsic that the module calls and no GPU has; empty when there is none. The back end
// would end the process.
std::string missing_function(const llvm::Module& module);

}  // namespace causeway::codegen
