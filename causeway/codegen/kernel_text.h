// The headers under causeway/kernels/, embedded in the program when it is built.
#pragma once

#include <span>
#include <string_view>

namespace causeway {

struct KernelTextFile {
  std::string_view path;  // as included, e.g. "causeway/kernels/types.h"
  std::string_view text;  // followed by a zero byte
};

// Sorted by path. Valid for the life of the program.
std::span<const KernelTextFile> kernel_text_files();

}  // namespace causeway
