#include "causeway/device/emulator/cluster_memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "causeway/device/emulator/async_copy.h"

namespace causeway::device {
namespace {

constexpr size_t kSharedAlignment = 1024;
// Bytes behind the shared memory of a block that nobody may write to.
constexpr size_t kSharedTail = 1024;
constexpr std::byte kTailByte{0xa5};

}  // namespace

void ClusterMemory::Free::operator()(std::byte* memory) const { std::free(memory); }

void ClusterMemory::prepare(int blocks, size_t bytes) {
  bytes_ = bytes;
  stride_ = (bytes + kSharedAlignment - 1) / kSharedAlignment * kSharedAlignment + kSharedTail;
  const size_t capacity = stride_ * static_cast<size_t>(blocks);
  if (capacity > capacity_) {
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kSharedAlignment, capacity)));
    capacity_ = capacity;
  }
  for (int rank = 0; rank < blocks; ++rank) {
    std::byte* memory = block(rank).data();
    std::memset(memory, std::to_integer<int>(kPoison), bytes);
    std::memset(memory + bytes, std::to_integer<int>(kTailByte), stride_ - bytes);
  }
}

std::optional<size_t> ClusterMemory::offset_in(int rank, uintptr_t address, size_t bytes) const {
  const auto begin = reinterpret_cast<uintptr_t>(block(rank).data());
  if (address < begin || address - begin >= bytes_ || bytes > bytes_ - (address - begin)) return std::nullopt;
  return address - begin;
}

std::optional<size_t> ClusterMemory::written_behind(int rank) const {
  const std::byte* memory = block(rank).data();
  const std::byte* end = memory + stride_;
  const std::byte* written = std::find_if(memory + bytes_, end, [](std::byte byte) { return byte != kTailByte; });
  if (written == end) return std::nullopt;
  return static_cast<size_t>(written - memory);
}

}  // namespace causeway::device
