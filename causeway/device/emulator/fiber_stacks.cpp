#include "causeway/device/emulator/fiber_stacks.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>

#include "causeway/base/error.h"

namespace causeway::device {
namespace {

constexpr uint64_t kCanary = 0x5afec0de5afec0de;

}  // namespace

FiberStacks::~FiberStacks() {
  for (const Mapping& mapping : mappings_) ::munmap(mapping.address, mapping.bytes);
}

void FiberStacks::reserve(size_t count) {
  if (count <= stacks_.size()) return;
  const size_t missing = count - stacks_.size();
  const size_t bytes = missing * kBytes;
  void* address =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (address == MAP_FAILED) {
    throw Error(ErrorKind::kResource, fmt::format("cannot allocate stacks for {} threads of a kernel", missing),
                "emulator", "Use a machine with more memory, or fewer host threads.");
  }
  ::madvise(address, bytes, MADV_NOHUGEPAGE);
  mappings_.push_back({address, bytes});
  for (size_t i = 0; i < missing; ++i) {
    std::byte* stack = static_cast<std::byte*>(address) + i * kBytes;
    std::memcpy(stack, &kCanary, sizeof kCanary);
    stacks_.push_back(stack);
  }
}

bool FiberStacks::overflowed(size_t index) const {
  uint64_t canary = 0;
  std::memcpy(&canary, stacks_[index], sizeof canary);
  return canary != kCanary;
}

}  // namespace causeway::device
