// Puts a lowered program's instructions on its device's queues.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "causeway/communicator/mesh_communicators.h"
#include "causeway/device/device.h"
#include "causeway/program/instruction.h"

namespace causeway::program {

// Fills `addresses`, by buffer: inputs and outputs are device pointers in the program's order.
void find_addresses(const LoweredProgram& program, std::byte* arena, std::span<void* const> inputs,
                    std::span<void* const> outputs, std::vector<void*>& addresses);

class Executor {
 public:
  // All outlive it. `communicators` may be null where the program has no collectives to run.
  Executor(const LoweredProgram& program, Device& device, MeshCommunicators* communicators)
      : program_(program), device_(device), communicators_(communicators) {}

  // Queues everything. `after_kernels` is called when a launch or collectives have been queued, and may synchronize.
  // Throws Error(kInvalidArgument) for collectives without communicators or over a group of another size.
  using AfterKernels = std::function<void(const Instruction&)>;
  void run(std::span<void* const> addresses, const AfterKernels& after_kernels = {});

 private:
  void find_groups();
  void queue_all(std::span<void* const> addresses, const AfterKernels& after_kernels);
  void launch(const Launch& launch, DeviceQueue queue, std::span<void* const> addresses);
  void exchange(const Collectives& collectives, Communicator& group, DeviceQueue queue,
                std::span<void* const> addresses) const;
  DeviceEvent& event(Signal signal);

  const LoweredProgram& program_;
  Device& device_;
  MeshCommunicators* communicators_;
  std::vector<Communicator*> groups_;  // by instruction, null but for collectives; found by the first run
  std::vector<std::shared_ptr<DeviceEvent>> events_;  // by signal, made when first used
  std::vector<void*> pointers_;                       // of the launch at hand: running a step allocates nothing
};

}  // namespace causeway::program
