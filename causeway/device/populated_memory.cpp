#include "causeway/device/populated_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <thread>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/base/thread_pool.h"

namespace causeway::device {
namespace {

constexpr size_t kPage = 4096, kHugePage = size_t{2} << 20;
// What a thread asks for at a time: the kernel holds the lock of the process's memory meanwhile.
constexpr size_t kPiece = 4 * kHugePage;
constexpr int kMostThreads = 8;

// False where there is no memory for it.
bool populate(char* memory, size_t bytes) {
  if (::madvise(memory, bytes, MADV_POPULATE_WRITE) == 0) return true;
  if (errno == ENOMEM) return false;
  // Kernels before Linux 5.14 do not know it.
  for (size_t at = 0; at < bytes; at += kPage) static_cast<volatile char*>(memory)[at] = 0;
  return true;
}

// The kernel fills pages with zeros, on the thread that asks.
bool populate_together(char* memory, size_t bytes) {
  const size_t pieces = (bytes + kPiece - 1) / kPiece;
  const auto threads =
      static_cast<int>(std::min<size_t>(pieces, static_cast<size_t>(std::min(kMostThreads, available_processors()))));
  std::atomic<size_t> next = 0;
  std::atomic<bool> all = true;
  const auto work = [&] {
    for (size_t piece = next++; piece < pieces; piece = next++)
      if (!populate(memory + piece * kPiece, std::min(kPiece, bytes - piece * kPiece))) all = false;
  };
  std::vector<std::jthread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  others.clear();
  return all;
}

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
  if (!populate_together(static_cast<char*>(memory), size)) fail();
  return memory;
}

}  // namespace causeway::device
