// The tasks of a launch that blocks take from a counter in the device's memory (take_task() of kernels/gpu/hopper.h).
// Which block gets which task depends on the seed alone, whatever the host's threads do: each has tasks of its own,
// drawn beforehand, and gets them in their order, as from a counter that others take from at any moment.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "causeway/device/emulator/async_host.h"
#include "causeway/device/emulator/emulated_launch.h"

namespace causeway::device {

// Of the blocks of one cluster.
class TakenTasks {
 public:
  // `host` outlives it.
  explicit TakenTasks(AsyncHost& host) : host_(host) {}

  // For the cluster whose first block that is. The launch outlives the cluster.
  void prepare(const EmulatedLaunch& launch, int64_t first_block);

  // The running block's next task. Fails where the counter would not be back at 0.
  // `in_order`: a block with a greater number has later tasks, as all may be waited for by those who have later ones,
  // and blocks begin in the order of their numbers.
  int take(const void* counter, int tasks, int refusals, bool in_order);

  // When the cluster has ended: the first block that was not told often enough that no task is left.
  std::optional<int> unfinished_block() const;

 private:
  struct Block {
    int next = 0;      // the first that may still be its own
    int refusals = 0;  // that are still to come; of a block that never asked, none
    bool asked = false;
  };

  AsyncHost& host_;
  const EmulatedLaunch* launch_ = nullptr;
  int64_t first_block_ = 0;
  std::vector<Block> blocks_;
};

}  // namespace causeway::device
