// Puts a lowered program's instructions on its device's queues.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "causeway/communicator/mesh_communicators.h"
#include "causeway/device/device.h"
#include "causeway/program/arena.h"
#include "causeway/program/held_memory.h"
#include "causeway/program/instruction.h"

namespace causeway::program {

// Fills `addresses`, by buffer: inputs and outputs are device pointers in the program's order.
void find_addresses(const LoweredProgram& program, Arena& arena, std::span<void* const> inputs,
                    std::span<void* const> outputs, std::vector<void*>& addresses);

// What is called of every instruction but waits, before it is queued and afterwards; it may synchronize.
struct ExecutionOnlooker {
  std::function<void(const Instruction&)> before = {};
  std::function<void(const Instruction&)> after = {};
};

class Executor {
 public:
  // All outlive it. `communicators` may be null where the program has no collectives to run, and `held` where no memory
  // is ever held.
  Executor(const LoweredProgram& program, Device& device, MeshCommunicators* communicators, HeldMemory* held = nullptr)
      : program_(program), device_(device), communicators_(communicators), held_(held) {}

  // Queues everything. Throws Error(kInvalidArgument) for collectives and messages without communicators or over a
  // group of another size.
  void run(std::span<void* const> addresses, const ExecutionOnlooker& onlooker = {});
  // Whether it writes to memory that is held now, so that a run waits for what a recording does not know of.
  bool writes_held_memory(std::span<void* const> addresses) const;

 private:
  void find_groups();
  static bool is_launch_alone(const Instruction& instruction, DeviceQueue queue);
  void clear_task_counter(std::span<void* const> addresses);
  void queue_all(std::span<void* const> addresses, const ExecutionOnlooker& onlooker);
  void launch(const Launch& launch, DeviceQueue queue, std::span<void* const> addresses);
  void copy(const Copy& copy, DeviceQueue queue, std::span<void* const> addresses) const;
  void exchange(const Collectives& collectives, Communicator& group, DeviceQueue queue,
                std::span<void* const> addresses) const;
  bool continues(const Collectives::Part& first, const Collectives::Part& second) const;
  void wait_for_held_memory(const Instruction& instruction, std::span<void* const> addresses);
  void exchange(const StageMessage& message, DeviceQueue queue, std::span<void* const> addresses) const;
  DeviceEvent& event(Signal signal);

  const LoweredProgram& program_;
  Device& device_;
  MeshCommunicators* communicators_;
  HeldMemory* held_;
  std::set<std::pair<DeviceQueue, const DeviceEvent*>> waited_;  // for held memory, in the run at hand
  std::vector<Communicator*> groups_;  // by instruction, null but for collectives; found by the first run
  std::vector<std::shared_ptr<DeviceEvent>> events_;  // by signal, made when first used
  std::vector<void*> pointers_;                       // of the launch at hand: running a step allocates nothing
  bool follows_launch_ = false;                       // as DeviceLaunch has it, of the next launch
};

}  // namespace causeway::program
