// Device memory that is kept for reuse: drivers take it back slowly and only when the GPU is idle. The compute queue
// has waited for what other queues do with a block before the block is given back (device.h), so that it may be handed
// out again while the work that used it is still queued.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "causeway/device/device.h"
#include "causeway/device/gpu_queues.h"

namespace causeway::device {

// Thread-safe. Buffers keep the pool and the queue alive.
class GpuMemoryPool : public std::enable_shared_from_this<GpuMemoryPool> {
 public:
  explicit GpuMemoryPool(std::shared_ptr<GpuQueues> queues) : queues_(std::move(queues)) {}
  ~GpuMemoryPool();
  GpuMemoryPool(const GpuMemoryPool&) = delete;
  GpuMemoryPool& operator=(const GpuMemoryPool&) = delete;

  // Aligned to 256 bytes. A free block of the same rounded size is reused, of several the one with the lowest address:
  // a step that frees what it took gets the same addresses next time, in whatever order it frees. When the driver has
  // no more, or a limit is reached, all free blocks go back to it first. Throws Error(kResource) with the sizes.
  DeviceBuffer allocate(size_t bytes);

  // As asked for, without rounding.
  int64_t bytes_in_use() const;
  int64_t peak_bytes() const;
  // Held for reuse, rounded.
  int64_t cached_bytes() const;
  // What the driver has given, rounded: in use, or held for reuse.
  int64_t reserved_bytes() const;
  int64_t peak_reserved_bytes() const;
  // Gives free blocks back to the driver.
  void release_cached();
  // From now on reserved_bytes() stays at most at so many; 0: no limit.
  void limit(int64_t bytes);

  // Multiples of 512 bytes up to 1 MiB, of 2 MiB (the drivers' own unit) above.
  static size_t rounded(size_t bytes);

 private:
  void give_back(std::byte* memory, size_t bytes);
  bool is_within_limit(size_t size) const { return limit_ == 0 || reserved_ + static_cast<int64_t>(size) <= limit_; }
  std::byte* allocate_locked(size_t size);
  void release_cached_locked();

  std::shared_ptr<GpuQueues> queues_;
  mutable std::mutex mutex_;
  std::map<size_t, std::set<std::byte*>> free_;  // by rounded size
  int64_t in_use_ = 0;
  int64_t peak_ = 0;
  int64_t cached_ = 0;
  int64_t reserved_ = 0;
  int64_t peak_reserved_ = 0;
  int64_t limit_ = 0;
};

}  // namespace causeway::device
