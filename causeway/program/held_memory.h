// Buffers that something outside of every program still reads: copies that run beside the programs. A program that
// writes to one waits first, in the queue that writes.
#pragma once

#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "causeway/device/device.h"

namespace causeway::program {

// One thread at a time, that of the context.
class HeldMemory {
 public:
  // The buffer that begins at `memory` may be written to when `event` has passed, which was signalled.
  void hold(const void* memory, std::shared_ptr<DeviceEvent> event) { events_[memory] = std::move(event); }
  bool empty() const { return events_.empty(); }
  // Null where the buffer is not held.
  const DeviceEvent* event(const void* memory) const {
    const auto found = events_.find(memory);
    return found == events_.end() ? nullptr : found->second.get();
  }

  // The compute queue waited from one moment to the other.
  void note_wait(std::shared_ptr<DeviceMoment> from, std::shared_ptr<DeviceMoment> to) {
    waits_.emplace_back(std::move(from), std::move(to));
  }
  // Nothing is held any more. Returns the seconds for which the compute queue stood still since the last call, after
  // waiting for it; devices that do their work at once give 0.
  double release(Device& device) {
    double seconds = 0;
    for (const auto& [from, to] : waits_) seconds += device.seconds_between(*from, *to);
    waits_.clear();
    events_.clear();
    return seconds;
  }

 private:
  std::unordered_map<const void*, std::shared_ptr<DeviceEvent>> events_;  // by beginning
  std::vector<std::pair<std::shared_ptr<DeviceMoment>, std::shared_ptr<DeviceMoment>>> waits_;
};

}  // namespace causeway::program
