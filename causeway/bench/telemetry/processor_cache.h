// The processors' caches, as the kernel tells them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "causeway/namespaces.h"

namespace causeway::bench {

// The last-level caches of all processors of the machine together (`system` is where sysfs lies); nothing where the
// kernel does not tell.
std::optional<int64_t> processor_cache_bytes(const std::filesystem::path& system = "/sys");

}  // namespace causeway::bench
