// The blocks of one cluster while they run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "causeway/device/device.h"
#include "causeway/device/emulator/access_checks.h"
#include "causeway/device/emulator/async_units.h"
#include "causeway/device/emulator/cluster_memory.h"
#include "causeway/device/emulator/emulated_launch.h"
#include "causeway/device/emulator/taken_tasks.h"
#include "causeway/device/emulator/thread_scheduler.h"

namespace causeway::device {

class ThreadCluster : public AsyncHost {
 public:
  // The cluster that runs on this thread of the host.
  static ThreadCluster& running();

  // Runs blocks [index * cluster, (index + 1) * cluster). Throws Error(kInvalidArgument) for whatever is wrong with the
  // kernel; nothing of the cluster runs any more then.
  void run(const EmulatedLaunch& launch, int64_t index);

  // What follows is called by a thread of the cluster, on its fiber.

  int cluster_size() const override { return launch_->cluster; }
  int block_rank() const override { return scheduler_.current()->rank; }
  int thread() const override { return scheduler_.current()->index; }
  std::span<std::byte> shared(int block_rank) override { return memory_.block(block_rank); }
  uint64_t random(uint64_t bound) override { return scheduler_.random(bound); }
  void wait_until(const std::function<bool()>& ready, const std::function<std::string()>& what) override {
    scheduler_.wait_until(ready, what);
  }
  [[noreturn]] void fail(const std::string& what) override;

  const EmulatedLaunch& launch() const { return *launch_; }
  int block() const { return static_cast<int>(first_block_) + block_rank(); }
  AsyncUnits& units() { return *units_; }

  // Waits until all threads of the wave, of the warpgroup, of the block or of the cluster have come to the same
  // operation. The last one calls complete(lanes) with what each brought, in the order of threads, before any goes on.
  template <class Complete>
  void meet_wave(const Collective& collective, void* lane, const Complete& complete) {
    const int width = launch_->architecture->wave_width;
    meet(waves_, width, collective, lane, complete);
  }
  template <class Complete>
  void meet_warpgroup(const Collective& collective, void* lane, const Complete& complete) {
    if (launch_->threads % kWarpgroupThreads != 0) {
      fail(collective.text() + " in a block that is not made of whole warpgroups of 128 threads");
    }
    meet(warpgroups_, kWarpgroupThreads, collective, lane, complete);
  }
  template <class Complete>
  void meet_block(const Collective& collective, const Complete& complete) {
    meet(blocks_, launch_->threads, collective, nullptr, complete);
  }
  template <class Complete>
  void meet_cluster(const Collective& collective, const Complete& complete) {
    meet(clusters_, cluster_threads(), collective, nullptr, complete);
  }

  // For checked text: threads that meet have seen what each of them did before.
  void order_wave() { checks_.order(launch_->architecture->wave_width); }
  void order_block() { checks_.order(launch_->threads); }
  void order_cluster() { checks_.order(cluster_threads()); }
  void release(RaceDetector::Channel channel) { checks_.release(channel); }
  void acquire(RaceDetector::Channel channel) { checks_.acquire(channel); }

  // The thread reads or writes these bytes; `place` is an AccessPlace. Fails when they are not all in memory that it
  // may touch, or when another thread's access conflicts.
  void access(const void* address, size_t bytes, bool writes, uint32_t place);
  // The same for bytes that are known to be in the shared memory of a block.
  void shared_access(int block_rank, size_t offset, size_t bytes, bool writes, uint32_t place);
  // As access(), from instrumented text.
  void text_access(const void* address, size_t bytes, bool writes, const void* place);

  TakenTasks& tasks() { return tasks_; }

  // From shared memory to the device's: `bytes`, or floats that are added to those there.
  void bulk_store(float* to, const void* shared, int bytes, bool adds);
  // Until `turn`, which another block may set, is `value`.
  void wait_for_turn(const uint32_t* turn, uint32_t value);
  void pass_turn(uint32_t* turn, uint32_t value);

  // Keeps the exception for run() to throw, and leaves the fiber for good.
  [[noreturn]] void abandon(std::exception_ptr failure) { scheduler_.abandon(std::move(failure)); }

 private:
  struct Meeting {
    Collective collective;
    int arrived = 0;
    std::vector<void*> lanes;
  };

  void prepare(const EmulatedLaunch& launch, int64_t index);
  static void run_kernel(void* cluster);
  [[noreturn]] void report_deadlock();
  int cluster_threads() const { return launch_->threads * launch_->cluster; }

  template <class Complete>
  void meet(std::vector<Meeting>& meetings, int size, const Collective& collective, void* lane,
            const Complete& complete) {
    const int number = scheduler_.current()->number, first = number / size * size;
    Meeting& meeting = meetings[static_cast<size_t>(first / size)];
    if (meeting.arrived == 0) {
      meeting.collective = collective;
      meeting.lanes.resize(static_cast<size_t>(size));
    } else if (meeting.collective != collective) {
      report_mismatch(meeting, collective, first);
    }
    meeting.lanes[static_cast<size_t>(number - first)] = lane;
    scheduler_.begin_meeting(collective);
    if (++meeting.arrived == size) {
      complete(meeting.lanes.data());
      meeting.arrived = 0;
      for (int i = first; i < first + size; ++i) scheduler_.wake(i);
    }
    scheduler_.leave();
  }
  [[noreturn]] void report_mismatch(const Meeting& meeting, const Collective& collective, int first);
  void check_turn(const uint32_t* turn);
  void check_shared_tail();
  void check_taken_tasks();

  const EmulatedLaunch* launch_ = nullptr;
  int64_t first_block_ = 0;
  ThreadScheduler scheduler_;
  std::vector<Meeting> waves_, warpgroups_, blocks_, clusters_;
  ClusterMemory memory_;
  std::optional<AsyncUnits> units_;
  AccessChecks checks_{*this, memory_};
  TakenTasks tasks_{*this};
};

}  // namespace causeway::device
