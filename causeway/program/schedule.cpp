#include "causeway/program/schedule.h"

#include <algorithm>
#include <map>
#include <utility>

namespace causeway::program {
namespace {

constexpr int64_t kWorthASignal = int64_t{4} << 20;

// The last instruction that wrote a buffer, and the last that wrote or read it.
struct LastUse {
  int write = -1;
  int access = -1;
};

// The instruction list so far. Whoever is added waits for the instructions of other queues that wrote what it reads,
// and for those that used what it writes.
class InstructionList {
 public:
  void add(Instruction instruction) {
    const DeviceQueue queue = instruction.queue;
    const std::vector<Access> accesses = instruction.accesses();
    come_after(queue, kComputeQueue, kStart);
    for (const Access& access : accesses)
      for (const auto& [other, use] : uses_[access.holding.buffer])
        come_after(queue, other, access.written ? use.access : use.write);
    const int position = static_cast<int>(list_.size());
    list_.push_back(std::move(instruction));
    last_[queue] = position;
    for (const Access& access : accesses) {
      LastUse& use = uses_[access.holding.buffer][queue];
      use.access = position;
      if (access.written) use.write = position;
    }
  }

  InstructionSchedule finish() {
    for (const auto& [queue, position] : last_) come_after(kComputeQueue, queue, position);
    return {std::move(list_), signals_};
  }

 private:
  static constexpr int kStart = -1;  // where the program begins, on the compute queue

  // What `queue` is given from now on comes after what is at `position` of the other.
  void come_after(DeviceQueue queue, DeviceQueue other, int position) {
    if (queue == other) return;
    const auto known = known_.find({queue, other});
    if (known != known_.end() && known->second >= position) return;
    // A queue that takes part waits at least for the start: nothing before it is in question.
    if (position == kStart && other != kComputeQueue) return;
    Signal signal = kBegin;
    if (position != kStart) {
      Signal& set = list_[static_cast<size_t>(position)].sets;
      if (set == kNoSignal) set = signals_++;
      signal = set;
    }
    list_.push_back({queue, Wait{signal}});
    known_[{queue, other}] = position;
  }

  std::vector<Instruction> list_;
  int signals_ = 1;
  std::map<int, std::map<DeviceQueue, LastUse>> uses_;        // by buffer
  std::map<DeviceQueue, int> last_;                           // without waits
  std::map<std::pair<DeviceQueue, DeviceQueue>, int> known_;  // what the first has waited for in the second
};

}  // namespace

ScheduleOptions default_schedule(const Target& target) {
  return target.is_gpu() ? ScheduleOptions{kWorthASignal} : ScheduleOptions{};
}

InstructionSchedule schedule_instructions(std::vector<KernelWork> kernels, std::vector<Copy> copies,
                                          const ScheduleOptions& options) {
  std::vector<Instruction> work;
  for (KernelWork& kernel : kernels)
    work.push_back(std::visit([](auto& one) { return Instruction{kComputeQueue, std::move(one)}; }, kernel));
  // Each copy behind the last kernel, or copy behind such a one, that it depends on; -1: it depends on none.
  std::map<int, LastUse> uses;  // by buffer, in kernels
  for (size_t k = 0; k < work.size(); ++k) {
    for (const Access& access : work[k].accesses()) {
      LastUse& use = uses[access.holding.buffer];
      use.access = static_cast<int>(k);
      if (access.written) use.write = static_cast<int>(k);
    }
  }
  const int last_kernel = static_cast<int>(work.size()) - 1;
  std::map<int, std::vector<Copy>> behind;
  for (Copy& copy : copies) {
    LastUse &from = uses[copy.from.buffer], &to = uses[copy.to];
    const int kernel = std::max(from.write, to.access);
    from.access = std::max(from.access, kernel);
    to.write = to.access = kernel;
    behind[kernel].push_back(std::move(copy));
  }
  InstructionList list;
  for (int k = -1; k <= last_kernel; ++k) {
    if (k >= 0) list.add(std::move(work[static_cast<size_t>(k)]));
    for (Copy& copy : behind[k]) {
      const bool beside = k < last_kernel && copy.bytes >= options.copy_queue_from;
      list.add({beside ? kCopyQueue : kComputeQueue, std::move(copy)});
    }
  }
  return list.finish();
}

}  // namespace causeway::program
