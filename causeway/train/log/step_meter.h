// What a step took of time and memory.
#pragma once

#include <chrono>
#include <cstdint>

#include "causeway/device/device.h"
#include "causeway/train/log/run_log.h"

namespace causeway::train {

class StepMeter {
 public:
  using Clock = std::chrono::steady_clock;

  // The device outlives it.
  explicit StepMeter(const Device& device) : device_(device) {}

  // Of each step once it is finished: fills in its seconds, and memory in use until now. `start`: when it began.
  // `seconds_after_last`: since the step before it ended, by the device's clock (StepFigures).
  void measure(Clock::time_point start, double seconds_after_last, StepReport& report);

 private:
  const Device& device_;
  Clock::time_point last_finished_;
  int64_t steps_ = 0;
  uint64_t occupied_bytes_ = 0;
};

}  // namespace causeway::train
