// Stacks for the fibers of one thread of the host.
#pragma once

#include <cstddef>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::device {

class FiberStacks {
 public:
  // Only what a fiber touches takes memory.
  static constexpr size_t kBytes = size_t{128} << 10;

  FiberStacks() = default;
  FiberStacks(const FiberStacks&) = delete;
  FiberStacks& operator=(const FiberStacks&) = delete;
  ~FiberStacks();

  // At least `count` stacks. Throws Error(kResource).
  void reserve(size_t count);
  std::byte* bottom(size_t index) const { return stacks_[index]; }
  // Where the fiber begins. It differs from stack to stack, so that not all of them compete for the same cache lines.
  std::byte* top(size_t index) const { return stacks_[index] + kBytes - index % 16 * 256; }
  // Something was written at the stack's far end.
  bool overflowed(size_t index) const;

 private:
  struct Mapping {
    void* address;
    size_t bytes;
  };
  std::vector<Mapping> mappings_;
  std::vector<std::byte*> stacks_;
};

}  // namespace causeway::device
