// Host memory whose pages are there before a driver pins them. Drivers hold a lock of their own while they pin: pages
// that they have to wait for would keep kernels from being launched.
#pragma once

#include <cstddef>

#include "causeway/namespaces.h"

namespace causeway::device {

// Never null; to be given to std::free(). Throws Error(kResource). `bytes` > 0.
void* allocate_populated(size_t bytes);

}  // namespace causeway::device
