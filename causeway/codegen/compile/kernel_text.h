// The headers under causeway/kernels/, embedded in the program when it is built. A file's path is the one by which it
// is included.
#pragma once

#include <span>

#include "causeway/base/embedded_text.h"
#include "causeway/namespaces.h"

namespace causeway::codegen {

using KernelTextFile = EmbeddedText;

// Sorted by path. Valid for the life of the program.
std::span<const EmbeddedText> kernel_text_files();

}  // namespace causeway::codegen
