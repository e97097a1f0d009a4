// What a GPU's back end has to be told about a module, between clang's front end and LLVM: launch bounds, which
// parameters may be addressed in place, visibility. Built without RTTI, as the embedded compiler is.
#pragma once

#include <string>

#include "causeway/namespaces.h"

namespace llvm {
class Module;
}

namespace causeway::codegen {

// Kernels carry annotate("causeway_launch_bounds THREADS BLOCKS"): each back end takes it as attributes of its
// own. The kernels' by-value arguments become grid constants on NVPTX, so that the address of a tensor map inside can
// be taken.
void apply_launch_bounds(llvm::Module& module);

// Says of asm text without side effects that it comes to an end: loads before and after it may then be merged. And of
// NVIDIA's intrinsics without memory or convergence, which LLVM 22 describes with less than LLVM 19 did, that they may
// be executed where their result is not asked for: without it a select of such a result becomes a branch.
void mark_pure_calls(llvm::Module& module);

// Names the first function or intrinsic that the module calls and no GPU has; empty when there is none. The back end
// would end the process.
std::string missing_function(const llvm::Module& module);

}  // namespace causeway::codegen
