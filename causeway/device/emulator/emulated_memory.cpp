#include "causeway/device/emulator/emulated_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "causeway/base/byte_size.h"
#include "causeway/base/error.h"

namespace causeway::device {
namespace {

constexpr size_t kAlignment = 256;
constexpr size_t kGap = 256;

}  // namespace

AllocationTable::Range AllocationTable::find(uintptr_t address) const {
  const auto after = std::upper_bound(ranges_.begin(), ranges_.end(), address,
                                      [](uintptr_t value, const Range& range) { return value < range.begin; });
  if (after == ranges_.begin()) return {};
  const Range& range = *std::prev(after);
  return address < range.end ? range : Range{};
}

std::string AllocationTable::describe(uintptr_t address) const {
  if (ranges_.empty()) return "nothing is allocated";
  const auto distance = [&](const Range& range) {
    return address < range.begin ? range.begin - address : address >= range.end ? address - range.end + 1 : 0;
  };
  const Range& nearest = *std::min_element(ranges_.begin(), ranges_.end(),
                                           [&](const Range& a, const Range& b) { return distance(a) < distance(b); });
  const uintptr_t bytes = nearest.end - nearest.begin;
  if (address < nearest.begin) {
    return fmt::format("{} bytes before an allocation of {} bytes", nearest.begin - address, bytes);
  }
  if (address >= nearest.end) {
    return fmt::format("{} bytes after the end of an allocation of {} bytes", address - nearest.end, bytes);
  }
  return fmt::format("at byte {} of an allocation of {} bytes", address - nearest.begin, bytes);
}

DeviceBuffer EmulatedMemory::allocate(size_t bytes, bool zeroed, const std::string& device) {
  if (bytes == 0) return {};
  void* memory = nullptr;
  if (bytes < SIZE_MAX / 2) {
    const size_t padded = (bytes + kAlignment - 1) / kAlignment * kAlignment + kGap;
    memory = std::aligned_alloc(kAlignment, padded);
  }
  if (memory == nullptr) {
    throw Error(ErrorKind::kResource,
                fmt::format("cannot allocate {} bytes ({}) of memory", bytes,
                            format_gib(static_cast<int64_t>(std::min<size_t>(bytes, INT64_MAX)))),
                device, "The emulator's memory is the machine's: use a smaller batch or model.");
  }
  std::memset(memory, zeroed ? 0 : kPoisonByte, bytes);
  {
    const std::lock_guard lock(mutex_);
    const auto begin = reinterpret_cast<uintptr_t>(memory);
    ranges_[begin] = begin + bytes;
    table_ = nullptr;
  }
  const auto counted = static_cast<int64_t>(bytes);
  const int64_t now = current_.fetch_add(counted) + counted;
  int64_t peak = peak_.load();
  while (peak < now && !peak_.compare_exchange_weak(peak, now)) {
  }
  const auto release = [self = shared_from_this(), bytes](std::byte* address) { self->release(address, bytes); };
  return {std::shared_ptr<std::byte>(static_cast<std::byte*>(memory), release), bytes};
}

void EmulatedMemory::release(std::byte* memory, size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    ranges_.erase(reinterpret_cast<uintptr_t>(memory));
    table_ = nullptr;
  }
  current_.fetch_sub(static_cast<int64_t>(bytes));
  std::free(memory);
}

std::shared_ptr<const AllocationTable> EmulatedMemory::table() {
  const std::lock_guard lock(mutex_);
  if (table_ == nullptr) {
    std::vector<AllocationTable::Range> ranges;
    ranges.reserve(ranges_.size());
    for (const auto& [begin, end] : ranges_) ranges.push_back({begin, end});
    table_ = std::make_shared<const AllocationTable>(std::move(ranges));
  }
  return table_;
}

void EmulatedMemory::require(const void* address, size_t bytes, const char* what, const std::string& device) {
  if (bytes == 0) return;
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const std::lock_guard lock(mutex_);
  const auto after = ranges_.upper_bound(begin);
  if (after != ranges_.begin() && begin + bytes <= std::prev(after)->second) return;
  throw Error(ErrorKind::kInvalidArgument,
              fmt::format("{} of {} bytes at {:#x}, which is not within one allocation", what, bytes, begin), device);
}

}  // namespace causeway::device
