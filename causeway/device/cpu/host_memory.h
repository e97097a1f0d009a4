// How much memory this process may use: what the machine has, and what its control groups allow (Linux cgroups,
// versions 1 and 2, as containers and batch systems set them). Beyond it the kernel ends programs without a word.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "causeway/namespaces.h"

namespace causeway::device {

struct HostMemory {
  int64_t total_bytes = 0;      // of the machine or of the tightest group, whichever is less; 0 when nothing says
  int64_t available_bytes = 0;  // could still be taken without swapping: free, or caches of files
  std::string limited_by;       // the group's directory where a group is the tighter one; else empty
};

// `root` is where proc and sys are found. What cannot be read counts as no limit.
HostMemory host_memory(const std::filesystem::path& root = "/");

// Memory of this process that is in RAM.
int64_t resident_bytes();

}  // namespace causeway::device
