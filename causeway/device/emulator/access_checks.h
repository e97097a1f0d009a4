// What is wrong with an access of a thread to memory: it is outside of what the thread may touch, or it races with
// another thread's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "causeway/device/emulator/async_host.h"
#include "causeway/device/emulator/cluster_memory.h"
#include "causeway/device/emulator/emulated_launch.h"
#include "causeway/device/emulator/race_detector.h"

namespace causeway::device {

// Of the threads of one cluster.
class AccessChecks {
 public:
  // Both outlive it. The accesses are those of the thread that runs.
  AccessChecks(AsyncHost& host, const ClusterMemory& memory) : host_(host), memory_(memory) {}

  // For cluster `index` of the launch, which outlives it.
  void prepare(const EmulatedLaunch& launch, int64_t index);

  // For checked text, and nothing otherwise: the running thread's group of `size` has seen what each of them did.
  void order(int size);
  void release(RaceDetector::Channel channel);
  void acquire(RaceDetector::Channel channel);

  // The running thread reads or writes bytes that are not its block's shared memory; `place` is an AccessPlace. Fails
  // where it may not touch them all, or where another thread's access conflicts.
  void device_access(uintptr_t begin, size_t bytes, bool writes, uint32_t place);
  // The same of shared memory, for checked text.
  void shared_access(int block_rank, size_t offset, size_t bytes, bool writes, uint32_t place);

 private:
  int number() const { return host_.block_rank() * launch_->threads + host_.thread(); }
  int64_t own_block() const { return index_ * launch_->cluster + host_.block_rank(); }
  [[noreturn]] void report_race(const Race& race, bool writes, uint32_t place, const std::string& memory);
  std::string describe_place(uint32_t place) const;
  std::string describe_thread(const AccessRecord& record) const;

  AsyncHost& host_;
  const ClusterMemory& memory_;
  const EmulatedLaunch* launch_ = nullptr;
  int64_t index_ = 0;
  RaceDetector races_;
  AllocationTable::Range last_allocation_;
};

}  // namespace causeway::device
