// The shared memory of the blocks of one cluster, used by one launch after another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "causeway/namespaces.h"

namespace causeway::device {

class ClusterMemory {
 public:
  // For so many blocks, each with that many bytes, which are poisoned.
  void prepare(int blocks, size_t bytes);

  std::span<std::byte> block(int rank) const { return {memory_.get() + static_cast<size_t>(rank) * stride_, bytes_}; }
  // Where in a block's memory these bytes begin, if it holds the first and the last of them.
  std::optional<size_t> offset_in(int rank, uintptr_t address, size_t bytes) const;
  // Whether the address is in the memory of any block, or right behind it.
  bool is_near(uintptr_t address) const { return address - reinterpret_cast<uintptr_t>(memory_.get()) < capacity_; }
  // The offset of the first byte behind a block's memory that was written to; nothing where none was.
  std::optional<size_t> written_behind(int rank) const;

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };

  std::unique_ptr<std::byte, Free> memory_;
  size_t capacity_ = 0;
  size_t bytes_ = 0;   // of a block
  size_t stride_ = 0;  // from block to block
};

}  // namespace causeway::device
