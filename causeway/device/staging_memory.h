// Copies between ordinary host memory and a GPU, by way of pinned memory, so that the caller's memory is free again as
// soon as a copy to the device returns, and the GPU need not be idle for it.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "causeway/device/gpu_queues.h"

namespace causeway::device {

class StagingMemory {
 public:
  explicit StagingMemory(std::shared_ptr<GpuQueues> queues) : queues_(std::move(queues)) {}
  ~StagingMemory();
  StagingMemory(const StagingMemory&) = delete;
  StagingMemory& operator=(const StagingMemory&) = delete;

  // Queues the copy and returns; waits only while the ring is full of copies that the GPU has not reached yet.
  void copy_to_device(void* to, const void* host, size_t bytes);
  // Returns when the bytes are there: after all work queued before.
  void copy_to_host(void* host, const void* from, size_t bytes);

 private:
  // A part of the ring that the GPU still reads.
  struct Region {
    size_t begin = 0;
    size_t end = 0;
    GpuQueues::Event event = nullptr;
  };

  // Where the next `bytes` of the ring begin, once the GPU has left them.
  size_t take(size_t bytes);
  void wait_for_oldest();
  GpuQueues::Event free_event();

  std::shared_ptr<GpuQueues> queues_;
  std::byte* ring_ = nullptr;
  size_t head_ = 0;
  std::deque<Region> busy_;  // oldest first
  std::vector<GpuQueues::Event> events_;
  std::byte* landing_ = nullptr;  // two pieces: the GPU fills one while the other is copied out
};

}  // namespace causeway::device
