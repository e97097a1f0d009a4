#include "causeway/device/emulator/late_queues.h"

#include <utility>

#include "causeway/base/error.h"

namespace causeway::device {
namespace {

struct LateEvent : DeviceEvent {
  bool signalled = false;
  DeviceQueue queue = kComputeQueue;
  uint64_t after = 0;  // pieces of work in the queue
};

}  // namespace

void LateQueues::add(DeviceQueue queue, std::function<void()> work) {
  if (queue == kComputeQueue) return work();
  Queue& late = queues_[queue];
  late.work.push_back(std::move(work));
  ++late.added;
}

std::shared_ptr<DeviceEvent> LateQueues::make_event() const { return std::make_shared<LateEvent>(); }

void LateQueues::signal(DeviceEvent& event, DeviceQueue queue) {
  auto& late = static_cast<LateEvent&>(event);
  late.signalled = true;
  late.queue = queue;
  late.after = queues_[queue].added;
}

void LateQueues::wait(const DeviceEvent& event, DeviceQueue queue) {
  const auto& late = static_cast<const LateEvent&>(event);
  CAUSEWAY_CHECK(late.signalled, "queue {} waits for an event that nobody signalled", queue);
  add(queue, [this, from = late.queue, after = late.after] { run_until(from, after); });
}

void LateQueues::run_until(DeviceQueue queue, uint64_t done) {
  Queue& late = queues_[queue];
  while (late.done < done) {
    const std::function<void()> work = std::move(late.work.front());
    late.work.pop_front();
    ++late.done;
    work();
  }
}

void LateQueues::finish() {
  // Work of one queue may do some of another.
  for (auto& [queue, late] : queues_) run_until(queue, late.added);
}

void LateQueues::finish(DeviceQueue queue) { run_until(queue, queues_[queue].added); }

void LateQueues::abandon() {
  for (auto& [queue, late] : queues_) {
    if (queue == kSaveQueue) continue;
    late.work.clear();
    late.done = late.added;
  }
}

}  // namespace causeway::device
