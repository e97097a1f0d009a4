// The memory of an emulated GPU: ranges of the host's, each of which is known.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "causeway/device/device.h"

namespace causeway::device {

inline constexpr int kPoisonByte = 0xff;  // NaN in every floating-point type

// What was allocated at one moment. Immutable.
class AllocationTable {
 public:
  struct Range {
    uintptr_t begin = 0;
    uintptr_t end = 0;
  };

  AllocationTable() = default;
  explicit AllocationTable(std::vector<Range> ranges) : ranges_(std::move(ranges)) {}

  // The allocation that holds the address; an empty range when none does.
  Range find(uintptr_t address) const;
  // "16 bytes after the end of an allocation of 4096 bytes": of the nearest one.
  std::string describe(uintptr_t address) const;

 private:
  std::vector<Range> ranges_;  // ascending
};

// Thread-safe. Held by the device and by every buffer, which may outlive the device.
class EmulatedMemory : public std::enable_shared_from_this<EmulatedMemory> {
 public:
  // Aligned to 256 bytes, with a gap to other allocations; filled with 0xff unless zeroed. `device` is for errors.
  DeviceBuffer allocate(size_t bytes, bool zeroed, const std::string& device);
  std::shared_ptr<const AllocationTable> table();
  // Throws Error(kInvalidArgument) unless the bytes lie in one allocation. `what`: "copy_to_device()".
  void require(const void* address, size_t bytes, const char* what, const std::string& device);

  int64_t bytes_in_use() const { return current_.load(); }
  int64_t peak_bytes() const { return peak_.load(); }

 private:
  void release(std::byte* memory, size_t bytes);

  std::mutex mutex_;
  std::map<uintptr_t, uintptr_t> ranges_;         // begin to end
  std::shared_ptr<const AllocationTable> table_;  // null after a change
  std::atomic<int64_t> current_{0};
  std::atomic<int64_t> peak_{0};
};

}  // namespace causeway::device
