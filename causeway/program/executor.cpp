#include "causeway/program/executor.h"

#include <algorithm>

#include "causeway/base/error.h"

namespace causeway::program {

void find_addresses(const LoweredProgram& program, std::byte* arena, std::span<void* const> inputs,
                    std::span<void* const> outputs, std::vector<void*>& addresses) {
  addresses.clear();
  addresses.reserve(program.buffers.size());
  for (const ProgramBuffer& buffer : program.buffers) {
    const auto at = static_cast<size_t>(buffer.at);
    addresses.push_back(buffer.place == ProgramBuffer::Place::kArena   ? arena + at
                        : buffer.place == ProgramBuffer::Place::kInput ? inputs[at]
                                                                       : outputs[at]);
  }
}

DeviceEvent& Executor::event(Signal signal) {
  events_.resize(static_cast<size_t>(program_.signals));
  std::shared_ptr<DeviceEvent>& event = events_[static_cast<size_t>(signal)];
  if (event == nullptr) event = device_.make_event();
  return *event;
}

void Executor::launch(const Launch& launch, DeviceQueue queue, std::span<void* const> addresses) {
  pointers_.clear();
  for (const Access& access : launch.accesses)
    pointers_.push_back(addresses[static_cast<size_t>(access.holding.buffer)]);
  for (const Launch::Phase& phase : launch.phases)
    device_.launch({phase.entry, pointers_, launch.sizes, phase.tasks, phase.scratch_bytes, phase.threads,
                    phase.shared_bytes, phase.cluster, launch.tensor_maps, queue});
}

void Executor::exchange(const Collectives& collectives, Communicator& group, DeviceQueue queue,
                        std::span<void* const> addresses) const {
  const auto run_parts = [&] {
    for (const Collectives::Part& part : collectives.parts) {
      communicators_->progress().begin_collective(collective_name(part.collective.kind), collectives.group);
      const void* from = addresses[static_cast<size_t>(part.from.buffer)];
      void* to = addresses[static_cast<size_t>(part.to.buffer)];
      group.run(part.collective, std::span(&from, 1), std::span(&to, 1), queue);
    }
  };
  if (collectives.parts.size() == 1) return run_parts();
  group.in_one(run_parts);
}

// Groups are made by all ranks in the order in which their programs name them.
void Executor::find_groups() {
  std::vector<Communicator*> groups;
  for (const Instruction& instruction : program_.instructions) {
    groups.push_back(nullptr);
    const auto* collectives = std::get_if<Collectives>(&instruction.work);
    if (collectives == nullptr) continue;
    if (communicators_ == nullptr)
      throw Error(
          ErrorKind::kInvalidArgument,
          fmt::format("the program exchanges data over '{}', and its context has no communicators", collectives->group),
          "collectives", "Open the context with the communicators of its mesh.");
    groups.back() = &communicators_->group(collectives->group);
    if (groups.back()->size() != collectives->ranks)
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("the program was made for {} ranks along '{}', and there are {}", collectives->ranks,
                              collectives->group, groups.back()->size()),
                  "collectives", "The mesh of a context and that of its communicators are one.");
  }
  groups_ = std::move(groups);
}

void Executor::run(std::span<void* const> addresses, const AfterKernels& after_kernels) {
  if (groups_.size() != program_.instructions.size()) find_groups();
  try {
    queue_all(addresses, after_kernels);
  } catch (...) {
    // The buffers may go back to the compute queue's order now, and other queues may still use them.
    try {
      device_.synchronize();
    } catch (...) {  // The first error says more, and while a run is recorded nothing is under way.
    }
    throw;
  }
}

void Executor::queue_all(std::span<void* const> addresses, const AfterKernels& after_kernels) {
  const bool begin_is_awaited =
      std::any_of(program_.instructions.begin(), program_.instructions.end(), [](const Instruction& instruction) {
        const auto* wait = std::get_if<Wait>(&instruction.work);
        return wait != nullptr && wait->signal == kBegin;
      });
  if (begin_is_awaited) device_.signal(event(kBegin), kComputeQueue);
  for (size_t i = 0; i < program_.instructions.size(); ++i) {
    const Instruction& instruction = program_.instructions[i];
    const DeviceQueue queue = instruction.queue;
    if (const auto* launch = std::get_if<Launch>(&instruction.work)) {
      this->launch(*launch, queue, addresses);
    } else if (const auto* copy = std::get_if<Copy>(&instruction.work)) {
      device_.copy_on_device(addresses[static_cast<size_t>(copy->to)],
                             addresses[static_cast<size_t>(copy->from.buffer)], static_cast<size_t>(copy->bytes),
                             queue);
    } else if (const auto* collectives = std::get_if<Collectives>(&instruction.work)) {
      exchange(*collectives, *groups_[i], queue, addresses);
    } else {
      device_.wait(event(std::get<Wait>(instruction.work).signal), queue);
    }
    if (instruction.sets != kNoSignal) device_.signal(event(instruction.sets), queue);
    if (after_kernels &&
        (std::holds_alternative<Launch>(instruction.work) || std::holds_alternative<Collectives>(instruction.work)))
      after_kernels(instruction);
  }
}

}  // namespace causeway::program
