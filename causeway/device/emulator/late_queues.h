// The queues of an emulated GPU. The compute queue does its work at once; every other one puts its work off until
// somebody waits for it, as late as a busy GPU might come to it, so that what lacks a wait gives wrong results here
// too.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>

#include "causeway/device/device.h"

namespace causeway::device {

// One thread at a time.
class LateQueues {
 public:
  void add(DeviceQueue queue, std::function<void()> work);
  std::shared_ptr<DeviceEvent> make_event() const;
  // As Device's functions of these names.
  void signal(DeviceEvent& event, DeviceQueue queue);
  void wait(const DeviceEvent& event, DeviceQueue queue);
  // Does all that was put off.
  void finish();
  // The same, of one queue.
  void finish(DeviceQueue queue);
  // Drops it, but for copies to the host: the program that gave it has failed. Its events have passed.
  void abandon();

 private:
  struct Queue {
    std::deque<std::function<void()>> work;
    uint64_t added = 0;
    uint64_t done = 0;
  };
  // Works until so much of what was added is done.
  void run_until(DeviceQueue queue, uint64_t done);

  std::map<DeviceQueue, Queue> queues_;
};

}  // namespace causeway::device
