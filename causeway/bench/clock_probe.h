// The clock at which a GPU's multiprocessors run at this moment, counted by the GPU itself. Management libraries cannot
// tell: they answer late, and a power limit changes the clock every few milliseconds, in steps of about 1 %.
#pragma once

#include <memory>
#include <optional>

#include "causeway/device/device.h"

namespace causeway::bench {

// The device must outlive it.
class ClockProbe {
 public:
  static constexpr int kMostReadings = 16;

  // Null for a processor, whose cores have clocks of their own. Throws as compiling and loading a kernel does.
  static std::unique_ptr<ClockProbe> open(Device& device);

  // Puts a reading into the device's queue. One multiprocessor is busy with it for 20 to 30 microseconds, the others
  // rest. At most kMostReadings before the next mean_mhz().
  void read();
  // Of the readings since the last call, when the queue has come to them. Nothing when there are none, or the device's
  // time stood still.
  std::optional<double> mean_mhz();

 private:
  ClockProbe(Device& device, std::shared_ptr<DeviceModule> module);

  Device& device_;
  std::shared_ptr<DeviceModule> module_;
  DeviceBuffer readings_;  // cycles and nanoseconds of each
  int count_ = 0;
};

}  // namespace causeway::bench
