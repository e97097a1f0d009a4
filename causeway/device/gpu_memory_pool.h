// Device memory that is kept for reuse: drivers take it back slowly and only when the GPU is idle. All work on it runs
// in one in-order queue, so a block may be handed out again while the work that used it is still queued.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "causeway/device/device.h"
#include "causeway/device/gpu_queue.h"

namespace causeway::device {

// Thread-safe. Buffers keep the pool and the queue alive.
class GpuMemoryPool : public std::enable_shared_from_this<GpuMemoryPool> {
 public:
  explicit GpuMemoryPool(std::shared_ptr<GpuQueue> queue) : queue_(std::move(queue)) {}
  ~GpuMemoryPool();
  GpuMemoryPool(const GpuMemoryPool&) = delete;
  GpuMemoryPool& operator=(const GpuMemoryPool&) = delete;

  // Aligned to 256 bytes. A free block of the same rounded size is reused, of several the one with the lowest address:
  // a step that frees what it took gets the same addresses next time, in whatever order it frees. When the driver has
  // no more, all free blocks go back to it first. Throws Error(kResource) with the sizes.
  DeviceBuffer allocate(size_t bytes);

  // As asked for, without rounding.
  int64_t bytes_in_use() const;
  int64_t peak_bytes() const;
  // Held for reuse, rounded.
  int64_t cached_bytes() const;
  // Gives free blocks back to the driver.
  void release_cached();

  // Multiples of 512 bytes up to 1 MiB, of 2 MiB (the drivers' own unit) above.
  static size_t rounded(size_t bytes);

 private:
  void give_back(std::byte* memory, size_t bytes);
  void release_cached_locked();

  std::shared_ptr<GpuQueue> queue_;
  mutable std::mutex mutex_;
  std::map<size_t, std::set<std::byte*>> free_;  // by rounded size
  int64_t in_use_ = 0;
  int64_t peak_ = 0;
  int64_t cached_ = 0;
};

}  // namespace causeway::device
