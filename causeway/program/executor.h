// Puts a lowered program's instructions on its device's queues.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "causeway/device/device.h"
#include "causeway/program/instruction.h"

namespace causeway::program {

// Fills `addresses`, by buffer: inputs and outputs are device pointers in the program's order.
void find_addresses(const LoweredProgram& program, std::byte* arena, std::span<void* const> inputs,
                    std::span<void* const> outputs, std::vector<void*>& addresses);

class Executor {
 public:
  // Both outlive it.
  Executor(const LoweredProgram& program, Device& device) : program_(program), device_(device) {}

  // Queues everything. `after_launch` is called when a launch has been queued, and may synchronize.
  using AfterLaunch = std::function<void(const Launch&)>;
  void run(std::span<void* const> addresses, const AfterLaunch& after_launch = {});

 private:
  void queue_all(std::span<void* const> addresses, const AfterLaunch& after_launch);
  void launch(const Launch& launch, DeviceQueue queue, std::span<void* const> addresses);
  DeviceEvent& event(Signal signal);

  const LoweredProgram& program_;
  Device& device_;
  std::vector<std::shared_ptr<DeviceEvent>> events_;  // by signal, made when first used
  std::vector<void*> pointers_;                       // of the launch at hand: running a step allocates nothing
};

}  // namespace causeway::program
