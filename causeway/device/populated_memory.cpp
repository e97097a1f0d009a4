#include "causeway/device/populated_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdlib>

#include "causeway/base/error.h"

namespace causeway::device {
namespace {

constexpr size_t kPage = 4096, kHugePage = size_t{2} << 20;

}  // namespace

void* allocate_populated(size_t bytes) {
  const size_t unit = bytes >= kHugePage ? kHugePage : kPage;
  const size_t size = (bytes + unit - 1) / unit * unit;
  void* const memory = std::aligned_alloc(unit, size);
  const auto fail = [&] {
    std::free(memory);
    throw Error(ErrorKind::kResource, fmt::format("{} bytes of host memory are not to be had", bytes), "host memory",
                "Give the machine or the process more memory.");
  };
  if (memory == nullptr) fail();
  if (unit == kHugePage) ::madvise(memory, size, MADV_HUGEPAGE);
  if (::madvise(memory, size, MADV_POPULATE_WRITE) != 0) {
    if (errno == ENOMEM) fail();
    // Kernels before Linux 5.14 do not know it.
    for (size_t at = 0; at < size; at += kPage) static_cast<volatile char*>(memory)[at] = 0;
  }
  return memory;
}

}  // namespace causeway::device
