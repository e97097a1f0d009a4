#include "causeway/device/emulator/thread_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/context/detail/fcontext.hpp>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/device/emulator/kernel_runtime.h"

namespace causeway::device {
namespace {

namespace context = boost::context::detail;

constexpr size_t kSharedAlignment = 1024;
// Bytes behind the shared memory of a block that nobody may write to.
constexpr size_t kSharedTail = 1024;
constexpr std::byte kTailByte{0xa5};
// In one of so many steps an asynchronous effect is applied, or waiting threads are looked at, though others could run.
constexpr uint64_t kEffectOdds = 8;
constexpr uint64_t kPollOdds = 16;
constexpr size_t kThreadsNamed = 8;  // groups of threads in the report of a deadlock

thread_local ThreadCluster* running_cluster = nullptr;

// splitmix64 (Steele, Lea, Flood 2014).
uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

}  // namespace

std::string Collective::text() const {
  if (file == nullptr) return fmt::format("{}()", name);
  std::string_view path = file;
  const size_t own = path.find("causeway/");
  path = own == std::string_view::npos ? path.substr(path.rfind('/') + 1) : path.substr(own);
  return fmt::format("{}() at {}:{}", name, path, line);
}

void ThreadCluster::FreeShared::operator()(std::byte* memory) const { std::free(memory); }

ThreadCluster& ThreadCluster::running() { return *running_cluster; }

std::span<std::byte> ThreadCluster::shared(int block_rank) {
  return {shared_memory_.get() + static_cast<size_t>(block_rank) * shared_stride_,
          static_cast<size_t>(launch_->shared_bytes)};
}

uint64_t ThreadCluster::random(uint64_t bound) {
  random_state_ += 0x9e3779b97f4a7c15;
  return static_cast<uint64_t>((static_cast<unsigned __int128>(mix(random_state_)) * bound) >> 64);
}

void ThreadCluster::prepare(const EmulatedLaunch& launch, int64_t index) {
  launch_ = &launch;
  first_block_ = index * launch.cluster;
  random_state_ = mix(launch.seed ^ mix(static_cast<uint64_t>(index) + 1));
  failure_ = nullptr;
  current_ = nullptr;
  ended_ = 0;

  const size_t count = static_cast<size_t>(launch.threads) * static_cast<size_t>(launch.cluster);
  stacks_.reserve(count);
  threads_.assign(count, Thread());
  runnable_.clear();
  polling_.clear();
  for (size_t i = 0; i < count; ++i) {
    Thread& thread = threads_[i];
    thread.rank = static_cast<int>(i) / launch.threads;
    thread.index = static_cast<int>(i) % launch.threads;
    std::byte* top = stacks_.top(i);
    thread.context =
        context::make_fcontext(top, static_cast<size_t>(top - stacks_.bottom(i)), [](context::transfer_t from) {
          auto* cluster = static_cast<ThreadCluster*>(from.data);
          cluster->scheduler_ = from.fctx;
          enter(cluster);
        });
    runnable_.push_back(static_cast<int>(i));
  }
  const auto meetings = [&](std::vector<Meeting>& list, size_t size) { list.assign((count + size - 1) / size, {}); };
  meetings(waves_, static_cast<size_t>(launch.architecture->wave_width));
  meetings(warpgroups_, kWarpgroupThreads);
  meetings(blocks_, static_cast<size_t>(launch.threads));
  meetings(clusters_, count);

  const auto shared_bytes = static_cast<size_t>(launch.shared_bytes);
  shared_stride_ = (shared_bytes + kSharedAlignment - 1) / kSharedAlignment * kSharedAlignment + kSharedTail;
  const size_t capacity = shared_stride_ * static_cast<size_t>(launch.cluster);
  if (capacity > shared_capacity_) {
    shared_memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kSharedAlignment, capacity)));
    shared_capacity_ = capacity;
  }
  for (int rank = 0; rank < launch.cluster; ++rank) {
    std::byte* memory = shared(rank).data();
    std::memset(memory, std::to_integer<int>(kPoison), shared_bytes);
    std::memset(memory + shared_bytes, std::to_integer<int>(kTailByte), shared_stride_ - shared_bytes);
  }
  units_.emplace(*this);
  last_allocation_ = {};
  taken_.assign(static_cast<size_t>(launch.cluster), {});
  if (launch.checked) {
    races_.begin(static_cast<uint32_t>(index), static_cast<int>(count), launch.cluster, shared_bytes, *launch.history);
  }
}

void ThreadCluster::run(const EmulatedLaunch& launch, int64_t index) {
  ThreadCluster* outer = std::exchange(running_cluster, this);
  try {
    prepare(launch, index);
    run_threads();
    current_ = nullptr;
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

void ThreadCluster::run_threads() {
  // For what other clusters are to do.
  constexpr std::chrono::minutes kLongestWait(5);
  const auto latest = std::chrono::steady_clock::now() + kLongestWait;
  while (ended_ < threads_.size()) {
    if (!units_->effects.empty() && random(kEffectOdds) == 0) {
      current_ = nullptr;
      units_->effects.apply_one(*this);
    }
    if (!polling_.empty() && random(kPollOdds) == 0) wake_ready();
    if (!runnable_.empty()) {
      run_one();
    } else if (!wake_ready()) {
      current_ = nullptr;
      if (!units_->effects.empty()) {
        units_->effects.apply_one(*this);
      } else if (waits_for_turns_ > 0 && std::chrono::steady_clock::now() < latest) {
        std::this_thread::yield();
        continue;
      } else {
        report_deadlock();
      }
    }
  }
}

void ThreadCluster::run_one() {
  std::swap(runnable_[random(runnable_.size())], runnable_.back());
  const auto number = static_cast<size_t>(runnable_.back());
  runnable_.pop_back();
  current_ = &threads_[number];
  current_->context = context::jump_fcontext(current_->context, this).fctx;
  if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
  if (stacks_.overflowed(number)) fail(fmt::format("used more than {} bytes of stack", FiberStacks::kBytes));
}

void ThreadCluster::enter(void* self) {
  auto& cluster = *static_cast<ThreadCluster*>(self);
  cluster.launch_->kernel->entry(cluster.launch_->arguments);
  std::exception_ptr failure;
  try {
    cluster.units_->thread_ended();
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure != nullptr) cluster.abandon(std::move(failure));
  cluster.current_->state = State::kEnded;
  ++cluster.ended_;
  cluster.leave();
  std::abort();  // a thread that has ended is not run again
}

void ThreadCluster::leave() { scheduler_ = context::jump_fcontext(scheduler_, nullptr).fctx; }

void ThreadCluster::abandon(std::exception_ptr failure) {
  failure_ = std::move(failure);
  leave();
  std::abort();  // run() gave up
}

void ThreadCluster::wake(Thread& thread) {
  thread.state = State::kRunnable;
  runnable_.push_back(number(thread));
}

bool ThreadCluster::wake_ready() {
  const size_t before = polling_.size();
  std::erase_if(polling_, [&](int number) {
    current_ = &threads_[static_cast<size_t>(number)];
    if (!(*current_->ready)()) return false;
    wake(*current_);
    return true;
  });
  return polling_.size() != before;
}

void ThreadCluster::wait_until(const std::function<bool()>& ready, const std::function<std::string()>& what) {
  if (ready()) return;
  current_->state = State::kPolling;
  current_->ready = &ready;
  current_->what = &what;
  polling_.push_back(number(*current_));
  leave();
}

void ThreadCluster::fail(const std::string& what) {
  if (current_ == nullptr) {
    throw Error(ErrorKind::kInvalidArgument, what,
                fmt::format("kernel {}, asynchronous work of block {}", launch_->kernel->name, first_block_));
  }
  throw Error(ErrorKind::kInvalidArgument, what,
              fmt::format("kernel {}, block {}, thread {}", launch_->kernel->name, block(), current_->index));
}

void ThreadCluster::report_mismatch(const Meeting& meeting, const Collective& collective, int first) {
  const int size = static_cast<int>(meeting.lanes.size());
  const auto begin = threads_.begin() + first;
  const auto other = std::find_if(begin, begin + size, [&](const Thread& thread) {
    return thread.state == State::kMeeting && thread.collective == meeting.collective;
  });
  fail(fmt::format("{} while thread {}, which has to take part, waits in {}", collective.text(), other->index,
                   meeting.collective.text()));
}

std::string ThreadCluster::describe_wait(const Thread& thread) {
  if (thread.state == State::kMeeting) return "waits in " + thread.collective.text();
  if (thread.state == State::kPolling) {
    current_ = &threads_[static_cast<size_t>(number(thread))];
    return "waits in " + (*thread.what)();
  }
  return "has returned";
}

void ThreadCluster::report_deadlock() {
  std::string report = "no thread can go on:";
  size_t groups = 0;
  for (size_t first = 0; first < threads_.size();) {
    const std::string wait = describe_wait(threads_[first]);
    size_t last = first;
    while (last + 1 < threads_.size() && threads_[last + 1].rank == threads_[first].rank &&
           describe_wait(threads_[last + 1]) == wait) {
      ++last;
    }
    if (++groups > kThreadsNamed) {
      report += " ...";
      break;
    }
    const std::string who = first == last ? fmt::format("thread {}", threads_[first].index)
                                          : fmt::format("threads {}-{}", threads_[first].index, threads_[last].index);
    report += fmt::format("{} {} of block {}: each {}", groups > 1 ? ";" : "", who, first_block_ + threads_[first].rank,
                          wait);
    first = last + 1;
  }
  throw Error(ErrorKind::kInvalidArgument, report,
              fmt::format("kernel {}, block {}", launch_->kernel->name, first_block_),
              "Barriers and operations of a wave need all of their threads, none of which may have returned or wait "
              "elsewhere.");
}

void ThreadCluster::check_shared_tail() {
  for (int rank = 0; rank < launch_->cluster; ++rank) {
    const std::span<const std::byte> memory = shared(rank);
    const std::byte* end = memory.data() + shared_stride_;
    const std::byte* written =
        std::find_if(memory.data() + memory.size(), end, [](std::byte byte) { return byte != kTailByte; });
    if (written == end) continue;
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("wrote to shared memory {:#x}, beyond the {} bytes of the launch", written - memory.data(),
                            memory.size()),
                fmt::format("kernel {}, block {}", launch_->kernel->name, first_block_ + rank));
  }
}

int ThreadCluster::take_task(const void* counter, int tasks, int refusals, bool in_order) {
  const auto address = reinterpret_cast<uintptr_t>(counter);
  const AllocationTable::Range range = launch_->allocations->find(address);
  if (range.begin == range.end || address % sizeof(uint32_t) != 0 || address + sizeof(uint32_t) > range.end)
    fail(fmt::format("takes a task from a counter at {:#x}, which has to be four bytes of the device's memory: {}",
                     address, launch_->allocations->describe(address)));
  if (tasks < 0 || refusals < 1)
    fail(fmt::format("takes one of {} tasks, to be told {} times that none is left", tasks, refusals));
  TakenTasks& taken = taken_[static_cast<size_t>(current_->rank)];
  if (!taken.asked) taken = {0, refusals, true};
  if (taken.refusals == 0)
    fail(fmt::format("takes another task after being told {} times that none is left", refusals));
  const auto owner = [&](int task) {
    if (in_order) return static_cast<int>(int64_t{task} * launch_->blocks / tasks);
    return static_cast<int>(mix(launch_->seed ^ mix(static_cast<uint64_t>(task))) %
                            static_cast<uint64_t>(launch_->blocks));
  };
  while (taken.next < tasks && owner(taken.next) != block()) ++taken.next;
  if (taken.next >= tasks) --taken.refusals;
  return taken.next++;
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
  ++waits_for_turns_;
  wait_until([&] { return now() == value; },
             [&] { return fmt::format("wait_for_turn() for {}, where {} is", value, now()); });
  --waits_for_turns_;
}

void ThreadCluster::pass_turn(uint32_t* turn, uint32_t value) {
  check_turn(turn);
  std::atomic_ref(*turn).store(value, std::memory_order_release);
}

void ThreadCluster::check_taken_tasks() {
  for (int rank = 0; rank < launch_->cluster; ++rank) {
    if (taken_[static_cast<size_t>(rank)].refusals == 0) continue;
    throw Error(ErrorKind::kInvalidArgument,
                "ended before it was told that no task is left: the counter that it takes them from would not be 0 "
                "again for the next launch",
                fmt::format("kernel {}, block {}", launch_->kernel->name, first_block_ + rank));
  }
}

void ThreadCluster::order(int size) {
  if (launch_->checked) races_.synchronize(number(*current_) / size * size, size);
}

void ThreadCluster::release(RaceDetector::Channel channel) {
  if (launch_->checked) races_.release(number(*current_), channel);
}

void ThreadCluster::acquire(RaceDetector::Channel channel) {
  if (launch_->checked) races_.acquire(number(*current_), channel);
}

void ThreadCluster::text_access(const void* address, size_t bytes, bool writes, const void* place) {
  const auto number = static_cast<size_t>(this->number(*current_));
  const auto is_within = [&](const void* begin, size_t size) {
    return static_cast<size_t>(static_cast<const std::byte*>(address) - static_cast<const std::byte*>(begin)) < size;
  };
  // The thread's own variables, and the table through which it calls the host.
  if (is_within(stacks_.bottom(number), FiberStacks::kBytes)) return;
  if (is_within(&emulator_runtime(), sizeof(EmulatorRuntime))) return;
  // The call is the instruction before the one it returns to.
  access(address, bytes, writes,
         static_cast<uint32_t>(reinterpret_cast<uintptr_t>(place) - launch_->kernel->module->begin() - 1));
}

void ThreadCluster::access(const void* address, size_t bytes, bool writes, uint32_t place) {
  if (bytes == 0) return;
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const auto is_within = [&](uintptr_t from, size_t size) {
    return begin >= from && begin - from < size && bytes <= size - (begin - from);
  };
  const std::span<std::byte> memory = shared(current_->rank);
  const auto shared_begin = reinterpret_cast<uintptr_t>(memory.data());
  if (is_within(shared_begin, memory.size())) {
    shared_access(current_->rank, begin - shared_begin, bytes, writes, place);
    return;
  }
  if (!is_within(last_allocation_.begin, last_allocation_.end - last_allocation_.begin)) {
    const AllocationTable::Range found = launch_->allocations->find(begin);
    if (found.begin != found.end) last_allocation_ = found;
  }
  if (is_within(last_allocation_.begin, last_allocation_.end - last_allocation_.begin)) {
    if (const auto race = races_.global_access(begin, bytes, writes, number(*current_), place)) {
      report_race(*race, writes, place,
                  fmt::format("device memory {:#x} ({})", begin, launch_->allocations->describe(begin)));
    }
    return;
  }
  if (!writes && (is_within(reinterpret_cast<uintptr_t>(launch_->arguments), launch_->argument_bytes) ||
                  launch_->kernel->module->contains(begin))) {
    return;
  }
  const std::string what = fmt::format("{} {} bytes", writes ? "writes" : "reads", bytes);
  const uintptr_t whole = reinterpret_cast<uintptr_t>(shared_memory_.get());
  if (begin - whole < shared_capacity_) {
    fail(fmt::format("{} of shared memory at offset {}{}, outside of the {} bytes that the launch gave the block", what,
                     static_cast<int64_t>(begin - shared_begin), describe_place(place), memory.size()));
  }
  fail(fmt::format("{} at {:#x}{}, outside of the device's memory: {}", what, begin, describe_place(place),
                   launch_->allocations->describe(begin)));
}

void ThreadCluster::shared_access(int block_rank, size_t offset, size_t bytes, bool writes, uint32_t place) {
  if (!launch_->checked) return;
  if (const auto race = races_.shared_access(block_rank, static_cast<uint32_t>(offset), static_cast<uint32_t>(bytes),
                                             writes, number(*current_), place)) {
    report_race(*race, writes, place, fmt::format("shared memory at offset {}", offset));
  }
  if (writes && place >= kFirstImagePlace && launch_->architecture->has_tma) {
    units_->view.stored(static_cast<int>(offset), static_cast<int>(bytes));
  }
}

std::string ThreadCluster::describe_place(uint32_t place) const {
  switch (place) {
    case kUnknownPlace:
      return "";
    case kCopyAsyncPlace:
      return " by copy_async_16()";
    case kLoadMatricesPlace:
      return " by load_fragment()";
    case kTensorLoadPlace:
      return " by tensor_load()";
    case kStoreInBlockPlace:
      return " by store_in_block()";
    case kTensorStorePlace:
      return " by tensor_store()";
    default:
      return launch_->kernel->module->place(place);
  }
}

std::string ThreadCluster::describe_thread(const AccessRecord& record) const {
  const int number = record.thread - 1;
  return fmt::format("thread {} of block {}", number % launch_->threads,
                     int64_t{record.cluster} * launch_->cluster + number / launch_->threads);
}

void ThreadCluster::report_race(const Race& race, bool writes, uint32_t place, const std::string& memory) {
  const bool is_same_block =
      int64_t{race.other.cluster} * launch_->cluster + (race.other.thread - 1) / launch_->threads == block();
  fail(fmt::format("a race: {} {}{}, which {} {}{} and nothing orders the two{}", writes ? "writes" : "reads", memory,
                   describe_place(place), describe_thread(race.other), race.other_writes ? "wrote" : "read",
                   describe_place(race.other.place), is_same_block ? "" : ", for they are in different blocks"));
}

}  // namespace causeway::device
