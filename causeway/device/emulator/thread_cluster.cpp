#include "causeway/device/emulator/thread_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/device/emulator/kernel_runtime.h"

namespace causeway::device {
namespace {

thread_local ThreadCluster* running_cluster = nullptr;

}  // namespace

ThreadCluster& ThreadCluster::running() { return *running_cluster; }

void ThreadCluster::prepare(const EmulatedLaunch& launch, int64_t index) {
  launch_ = &launch;
  first_block_ = index * launch.cluster;
  const uint64_t seed = mix(launch.seed ^ mix(static_cast<uint64_t>(index) + 1));
  scheduler_.prepare(launch.cluster, launch.threads, seed, &ThreadCluster::run_kernel, this);
  const size_t count = scheduler_.threads().size();
  const auto meetings = [&](std::vector<Meeting>& list, size_t size) { list.assign((count + size - 1) / size, {}); };
  meetings(waves_, static_cast<size_t>(launch.architecture->wave_width));
  meetings(warpgroups_, kWarpgroupThreads);
  meetings(blocks_, static_cast<size_t>(launch.threads));
  meetings(clusters_, count);

  memory_.prepare(launch.cluster, static_cast<size_t>(launch.shared_bytes));
  units_.emplace(*this);
  tasks_.prepare(launch, first_block_);
  checks_.prepare(launch, index);
}

void ThreadCluster::run(const EmulatedLaunch& launch, int64_t index) {
  ThreadCluster* outer = std::exchange(running_cluster, this);
  try {
    prepare(launch, index);
    if (!scheduler_.run(*this, units_->effects)) report_deadlock();
    scheduler_.run_none();
    units_->effects.apply_all(*this);
    check_shared_tail();
    check_taken_tasks();
  } catch (...) {
    units_.reset();
    running_cluster = outer;
    throw;
  }
  units_.reset();
  running_cluster = outer;
}

// On the fiber of a thread.
void ThreadCluster::run_kernel(void* self) {
  auto& cluster = *static_cast<ThreadCluster*>(self);
  cluster.launch_->kernel->entry(cluster.launch_->arguments);
  std::exception_ptr failure;
  try {
    cluster.units_->thread_ended();
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure != nullptr) cluster.abandon(std::move(failure));
  cluster.scheduler_.end();
}

void ThreadCluster::fail(const std::string& what) {
  const ThreadScheduler::Thread* thread = scheduler_.current();
  if (thread == nullptr) {
    throw Error(ErrorKind::kInvalidArgument, what,
                fmt::format("kernel {}, asynchronous work of block {}", launch_->kernel->name, first_block_));
  }
  throw Error(ErrorKind::kInvalidArgument, what,
              fmt::format("kernel {}, block {}, thread {}", launch_->kernel->name, block(), thread->index));
}

void ThreadCluster::report_mismatch(const Meeting& meeting, const Collective& collective, int first) {
  const int size = static_cast<int>(meeting.lanes.size());
  const auto begin = scheduler_.threads().begin() + first;
  const auto other = std::find_if(begin, begin + size, [&](const ThreadScheduler::Thread& thread) {
    return thread.state == ThreadScheduler::State::kMeeting && thread.collective == meeting.collective;
  });
  fail(fmt::format("{} while thread {}, which has to take part, waits in {}", collective.text(), other->index,
                   meeting.collective.text()));
}

void ThreadCluster::report_deadlock() {
  throw Error(ErrorKind::kInvalidArgument, "no thread can go on:" + scheduler_.describe_waits(first_block_),
              fmt::format("kernel {}, block {}", launch_->kernel->name, first_block_),
              "Barriers and operations of a wave need all of their threads, none of which may have returned or wait "
              "elsewhere.");
}

void ThreadCluster::check_shared_tail() {
  for (int rank = 0; rank < launch_->cluster; ++rank) {
    const std::optional<size_t> written = memory_.written_behind(rank);
    if (!written) continue;
    throw Error(
        ErrorKind::kInvalidArgument,
        fmt::format("wrote to shared memory {:#x}, beyond the {} bytes of the launch", *written, launch_->shared_bytes),
        fmt::format("kernel {}, block {}", launch_->kernel->name, first_block_ + rank));
  }
}

void ThreadCluster::bulk_store(float* to, const void* shared, int bytes, bool adds) {
  const auto address = reinterpret_cast<uintptr_t>(to);
  const AllocationTable::Range range = launch_->allocations->find(address);
  if (range.begin == range.end || address + static_cast<uintptr_t>(bytes) > range.end)
    fail(fmt::format("a bulk store of {} bytes to {:#x}, which have to be of one buffer of the device: {}", bytes,
                     address, launch_->allocations->describe(address)));
  units_->tensors.store(to, shared, bytes, adds);
}

void ThreadCluster::check_turn(const uint32_t* turn) {
  const auto address = reinterpret_cast<uintptr_t>(turn);
  const AllocationTable::Range range = launch_->allocations->find(address);
  if (range.begin == range.end || address % sizeof(uint32_t) != 0 || address + sizeof(uint32_t) > range.end)
    fail(fmt::format("a turn is a number at {:#x}, which has to be four bytes of the device's memory: {}", address,
                     launch_->allocations->describe(address)));
}

void ThreadCluster::wait_for_turn(const uint32_t* turn, uint32_t value) {
  check_turn(turn);
  const auto now = [turn] { return std::atomic_ref(*const_cast<uint32_t*>(turn)).load(std::memory_order_acquire); };
  scheduler_.wait_until([&] { return now() == value; },
                        [&] { return fmt::format("wait_for_turn() for {}, where {} is", value, now()); }, true);
}

void ThreadCluster::pass_turn(uint32_t* turn, uint32_t value) {
  check_turn(turn);
  std::atomic_ref(*turn).store(value, std::memory_order_release);
}

void ThreadCluster::check_taken_tasks() {
  const std::optional<int> rank = tasks_.unfinished_block();
  if (!rank) return;
  throw Error(ErrorKind::kInvalidArgument,
              "ended before it was told that no task is left: the counter that it takes them from would not be 0 "
              "again for the next launch",
              fmt::format("kernel {}, block {}", launch_->kernel->name, first_block_ + *rank));
}

void ThreadCluster::text_access(const void* address, size_t bytes, bool writes, const void* place) {
  // The thread's own variables, and the table through which it calls the host.
  if (scheduler_.is_on_stack(address)) return;
  if (reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(&emulator_runtime()) < sizeof(EmulatorRuntime))
    return;
  // The call is the instruction before the one it returns to.
  access(address, bytes, writes,
         static_cast<uint32_t>(reinterpret_cast<uintptr_t>(place) - launch_->kernel->module->begin() - 1));
}

void ThreadCluster::access(const void* address, size_t bytes, bool writes, uint32_t place) {
  if (bytes == 0) return;
  const auto begin = reinterpret_cast<uintptr_t>(address);
  if (const std::optional<size_t> offset = memory_.offset_in(block_rank(), begin, bytes))
    return shared_access(block_rank(), *offset, bytes, writes, place);
  checks_.device_access(begin, bytes, writes, place);
}

void ThreadCluster::shared_access(int block_rank, size_t offset, size_t bytes, bool writes, uint32_t place) {
  if (!launch_->checked) return;
  checks_.shared_access(block_rank, offset, bytes, writes, place);
  if (writes && place >= kFirstImagePlace && launch_->architecture->has_tma)
    units_->view.stored(static_cast<int>(offset), static_cast<int>(bytes));
}

}  // namespace causeway::device
