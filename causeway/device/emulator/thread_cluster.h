// The blocks of one cluster while they run: a fiber per thread, all on one thread of the host. A fiber runs until it
// has to wait for others; which of those that can go on is next is drawn from the seed.
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
#include "causeway/device/emulator/async_units.h"
#include "causeway/device/emulator/emulated_memory.h"
#include "causeway/device/emulator/emulator_module.h"
#include "causeway/device/emulator/fiber_stacks.h"
#include "causeway/device/emulator/race_detector.h"
#include "causeway/device/gpu_architecture.h"

namespace causeway::device {

// What the clusters of a launch have in common.
struct EmulatedLaunch {
  const EmulatedKernel* kernel = nullptr;
  const GpuArchitecture* architecture = nullptr;
  const std::byte* arguments = nullptr;
  size_t argument_bytes = 0;
  int blocks = 0;
  int threads = 0;  // of a block
  int shared_bytes = 0;
  int cluster = 1;
  uint64_t seed = 0;
  bool checked = false;
  std::shared_ptr<const AllocationTable> allocations;
  GlobalHistory* history = nullptr;  // only where checked
};

// An operation that several threads take part in, as each of them calls it.
struct Collective {
  const char* name = "";
  const char* file = nullptr;
  int line = 0;
  int detail = 0;  // has to be the same for all

  bool operator==(const Collective&) const = default;
  // "wave_shuffle() at causeway/kernels/gpu/reduce.h:33"
  std::string text() const;
};

class ThreadCluster : public AsyncHost {
 public:
  // The cluster that runs on this thread of the host.
  static ThreadCluster& running();

  // Runs blocks [index * cluster, (index + 1) * cluster). Throws Error(kInvalidArgument) for whatever is wrong with the
  // kernel; nothing of the cluster runs any more then.
  void run(const EmulatedLaunch& launch, int64_t index);

  // What follows is called by a thread of the cluster, on its fiber.

  int cluster_size() const override { return launch_->cluster; }
  int block_rank() const override { return current_->rank; }
  int thread() const override { return current_->index; }
  std::span<std::byte> shared(int block_rank) override;
  uint64_t random(uint64_t bound) override;
  void wait_until(const std::function<bool()>& ready, const std::function<std::string()>& what) override;
  [[noreturn]] void fail(const std::string& what) override;

  const EmulatedLaunch& launch() const { return *launch_; }
  int block() const { return static_cast<int>(first_block_) + current_->rank; }
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
    meet(clusters_, static_cast<int>(threads_.size()), collective, nullptr, complete);
  }

  // For checked text: threads that meet have seen what each of them did before.
  void order_wave() { order(launch_->architecture->wave_width); }
  void order_block() { order(launch_->threads); }
  void order_cluster() { order(static_cast<int>(threads_.size())); }
  void release(RaceDetector::Channel channel);
  void acquire(RaceDetector::Channel channel);

  // The thread reads or writes these bytes; `place` is an AccessPlace. Fails when they are not all in memory that it
  // may touch, or when another thread's access conflicts.
  void access(const void* address, size_t bytes, bool writes, uint32_t place);
  // The same for bytes that are known to be in the shared memory of a block.
  void shared_access(int block_rank, size_t offset, size_t bytes, bool writes, uint32_t place);
  // As access(), from instrumented text.
  void text_access(const void* address, size_t bytes, bool writes, const void* place);

  // The running block's next task, as take_task() of kernels/gpu/hopper.h gives it. Which block gets which task depends
  // on the seed alone, whatever the host's threads do: each has tasks of its own, drawn beforehand, and gets them in
  // their order, as from a counter that others take from at any moment. Fails, here or when the cluster ends, where the
  // counter would not be back at 0.
  // `in_order`: a block with a greater number has later tasks, as all may be waited for by those who have later ones,
  // and blocks begin in the order of their numbers.
  int take_task(const void* counter, int tasks, int refusals, bool in_order);

  // From shared memory to the device's: `bytes`, or floats that are added to those there.
  void bulk_store(float* to, const void* shared, int bytes, bool adds);
  // Until `turn`, which another block may set, is `value`.
  void wait_for_turn(const uint32_t* turn, uint32_t value);
  void pass_turn(uint32_t* turn, uint32_t value);

  // Keeps the exception for run() to throw, and leaves the fiber for good.
  [[noreturn]] void abandon(std::exception_ptr failure);

 private:
  enum class State : uint8_t { kRunnable, kMeeting, kPolling, kEnded };

  struct Thread {
    void* context = nullptr;
    int rank = 0;   // of its block
    int index = 0;  // in its block
    State state = State::kRunnable;
    Collective collective;                               // kMeeting
    const std::function<bool()>* ready = nullptr;        // kPolling
    const std::function<std::string()>* what = nullptr;  // kPolling
  };
  struct Meeting {
    Collective collective;
    int arrived = 0;
    std::vector<void*> lanes;
  };
  // What a block has had of the launch's tasks.
  struct TakenTasks {
    int next = 0;      // the first that may still be its own
    int refusals = 0;  // that are still to come; of a block that never asked, none
    bool asked = false;
  };
  struct FreeShared {
    void operator()(std::byte* memory) const;
  };

  void prepare(const EmulatedLaunch& launch, int64_t index);
  void run_threads();
  void run_one();
  static void enter(void* cluster);
  void leave();  // to the scheduler
  void wake(Thread& thread);
  bool wake_ready();
  [[noreturn]] void report_deadlock();
  std::string describe_wait(const Thread& thread);
  int number(const Thread& thread) const { return thread.rank * launch_->threads + thread.index; }

  template <class Complete>
  void meet(std::vector<Meeting>& meetings, int size, const Collective& collective, void* lane,
            const Complete& complete) {
    const int first = number(*current_) / size * size;
    Meeting& meeting = meetings[static_cast<size_t>(first / size)];
    if (meeting.arrived == 0) {
      meeting.collective = collective;
      meeting.lanes.resize(static_cast<size_t>(size));
    } else if (meeting.collective != collective) {
      report_mismatch(meeting, collective, first);
    }
    meeting.lanes[static_cast<size_t>(number(*current_) - first)] = lane;
    current_->state = State::kMeeting;
    current_->collective = collective;
    if (++meeting.arrived == size) {
      complete(meeting.lanes.data());
      meeting.arrived = 0;
      for (int i = first; i < first + size; ++i) wake(threads_[static_cast<size_t>(i)]);
    }
    leave();
  }
  [[noreturn]] void report_mismatch(const Meeting& meeting, const Collective& collective, int first);
  void order(int size);
  [[noreturn]] void report_race(const Race& race, bool writes, uint32_t place, const std::string& memory);
  std::string describe_place(uint32_t place) const;
  std::string describe_thread(const AccessRecord& record) const;
  void check_turn(const uint32_t* turn);
  void check_shared_tail();
  void check_taken_tasks();

  const EmulatedLaunch* launch_ = nullptr;
  int64_t first_block_ = 0;
  uint64_t random_state_ = 0;
  FiberStacks stacks_;
  std::vector<Thread> threads_;  // by number()
  std::vector<int> runnable_;
  std::vector<int> polling_;
  int waits_for_turns_ = 0;  // threads whose wait another cluster may end
  Thread* current_ = nullptr;
  void* scheduler_ = nullptr;
  size_t ended_ = 0;
  std::exception_ptr failure_;

  std::vector<Meeting> waves_, warpgroups_, blocks_, clusters_;
  std::unique_ptr<std::byte, FreeShared> shared_memory_;
  size_t shared_capacity_ = 0;
  size_t shared_stride_ = 0;  // from block to block
  std::optional<AsyncUnits> units_;
  RaceDetector races_;
  AllocationTable::Range last_allocation_;
  std::vector<TakenTasks> taken_;  // by block
};

}  // namespace causeway::device
