#include "causeway/device/emulator/taken_tasks.h"

#include <fmt/format.h>

#include <algorithm>

namespace causeway::device {

void TakenTasks::prepare(const EmulatedLaunch& launch, int64_t first_block) {
  launch_ = &launch;
  first_block_ = first_block;
  blocks_.assign(static_cast<size_t>(launch.cluster), {});
}

int TakenTasks::take(const void* counter, int tasks, int refusals, bool in_order) {
  const auto address = reinterpret_cast<uintptr_t>(counter);
  const AllocationTable::Range range = launch_->allocations->find(address);
  if (range.begin == range.end || address % sizeof(uint32_t) != 0 || address + sizeof(uint32_t) > range.end)
    host_.fail(
        fmt::format("takes a task from a counter at {:#x}, which has to be four bytes of the device's memory: {}",
                    address, launch_->allocations->describe(address)));
  if (tasks < 0 || refusals < 1)
    host_.fail(fmt::format("takes one of {} tasks, to be told {} times that none is left", tasks, refusals));
  const int rank = host_.block_rank();
  const int64_t block = first_block_ + rank;
  Block& taken = blocks_[static_cast<size_t>(rank)];
  if (!taken.asked) taken = {0, refusals, true};
  if (taken.refusals == 0)
    host_.fail(fmt::format("takes another task after being told {} times that none is left", refusals));
  const auto owner = [&](int task) {
    if (in_order) return static_cast<int>(int64_t{task} * launch_->blocks / tasks);
    return static_cast<int>(mix(launch_->seed ^ mix(static_cast<uint64_t>(task))) %
                            static_cast<uint64_t>(launch_->blocks));
  };
  while (taken.next < tasks && owner(taken.next) != block) ++taken.next;
  if (taken.next >= tasks) --taken.refusals;
  return taken.next++;
}

std::optional<int> TakenTasks::unfinished_block() const {
  const auto found = std::ranges::find_if(blocks_, [](const Block& block) { return block.refusals != 0; });
  if (found == blocks_.end()) return std::nullopt;
  return static_cast<int>(found - blocks_.begin());
}

}  // namespace causeway::device
