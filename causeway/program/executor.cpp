#include "causeway/program/executor.h"

#include <algorithm>

#include "causeway/base/error.h"

namespace causeway::program {

void find_addresses(const LoweredProgram& program, Arena& arena, std::span<void* const> inputs,
                    std::span<void* const> outputs, std::vector<void*>& addresses) {
  std::byte* const memory = arena.reserve(program.arena_bytes);
  std::byte* const host_memory = arena.reserve_on_host(program.host_arena_bytes);
  addresses.clear();
  addresses.reserve(program.buffers.size());
  for (const ProgramBuffer& buffer : program.buffers) {
    const auto at = static_cast<size_t>(buffer.at);
    switch (buffer.place) {
      case ProgramBuffer::Place::kArena:
        addresses.push_back(memory + at);
        break;
      case ProgramBuffer::Place::kHostArena:
        addresses.push_back(host_memory + at);
        break;
      case ProgramBuffer::Place::kInput:
        addresses.push_back(inputs[at]);
        break;
      case ProgramBuffer::Place::kOutput:
        addresses.push_back(outputs[at]);
        break;
      case ProgramBuffer::Place::kTaskCounter:
        addresses.push_back(arena.task_counter());
    }
  }
}

DeviceEvent& Executor::event(Signal signal) {
  events_.resize(static_cast<size_t>(program_.signals));
  std::shared_ptr<DeviceEvent>& event = events_[static_cast<size_t>(signal)];
  if (event == nullptr) event = device_.make_event();
  return *event;
}

// More blocks than that run for longer than their launch takes; set up early they only get in the way.
constexpr int64_t kFewTasks = 1024;

void Executor::launch(const Launch& launch, DeviceQueue queue, std::span<void* const> addresses) {
  pointers_.clear();
  for (const Access& access : launch.accesses)
    pointers_.push_back(addresses[static_cast<size_t>(access.holding.buffer)]);
  for (const Launch::Phase& phase : launch.phases) {
    device_.launch({phase.entry, pointers_, launch.sizes, phase.tasks, phase.scratch_bytes, phase.threads,
                    phase.shared_bytes, phase.cluster, launch.tensor_maps, queue,
                    follows_launch_ && !phase.persistent && phase.tasks <= kFewTasks});
    follows_launch_ = follows_launch_ || phase.tasks > 0;
  }
}

void Executor::copy(const Copy& copy, DeviceQueue queue, std::span<void* const> addresses) const {
  const auto from = static_cast<size_t>(copy.from.buffer), to = static_cast<size_t>(copy.to);
  const auto bytes = static_cast<size_t>(copy.bytes);
  if (program_.buffers[from].on_host) {
    device_.queue_copy_to_device(addresses[to], addresses[from], bytes, queue);
  } else if (program_.buffers[to].on_host) {
    device_.queue_copy_to_host(addresses[to], addresses[from], bytes, queue);
  } else {
    device_.copy_on_device(addresses[to], addresses[from], bytes, queue);
  }
}

// Whether the second of two sums, each in place, begins where the first one ends. In the arena that is so on all ranks
// or on none.
bool Executor::continues(const Collectives::Part& first, const Collectives::Part& second) const {
  const auto sum_in_arena = [&](const Collectives::Part& part) {
    return part.collective.kind == CollectiveKind::kAllReduce && part.from.buffer == part.to.buffer &&
           program_.buffers[static_cast<size_t>(part.to.buffer)].place == ProgramBuffer::Place::kArena;
  };
  const ProgramBuffer &one = program_.buffers[static_cast<size_t>(first.to.buffer)],
                      &next = program_.buffers[static_cast<size_t>(second.to.buffer)];
  return sum_in_arena(first) && sum_in_arena(second) && first.collective.dtype == second.collective.dtype &&
         one.at + one.bytes == next.at;
}

void Executor::exchange(const Collectives& collectives, Communicator& group, DeviceQueue queue,
                        std::span<void* const> addresses) const {
  const std::vector<Collectives::Part>& parts = collectives.parts;
  std::vector<Collectives::Part> calls;
  for (size_t p = 0; p < parts.size(); ++p) {
    if (p > 0 && continues(parts[p - 1], parts[p])) {
      calls.back().collective.count += parts[p].collective.count;
    } else {
      calls.push_back(parts[p]);
    }
  }
  const auto run_calls = [&] {
    for (const Collectives::Part& part : calls) {
      communicators_->progress().begin_collective(collective_name(part.collective.kind), collectives.group,
                                                  larger_bytes(part, collectives.ranks));
      const void* from = addresses[static_cast<size_t>(part.from.buffer)];
      void* to = addresses[static_cast<size_t>(part.to.buffer)];
      group.run(part.collective, std::span(&from, 1), std::span(&to, 1), queue);
    }
  };
  if (calls.size() == 1) {
    run_calls();
  } else {
    group.in_one(run_calls);
  }
  if (!device_.target().runs_asynchronously()) communicators_->progress().end_collectives(calls.size());
}

void Executor::exchange(const StageMessage& message, DeviceQueue queue, std::span<void* const> addresses) const {
  communicators_->progress().begin_collective(message.sends ? "send" : "receive",
                                              fmt::format("{}, stage {}", message.name, message.stage),
                                              message.count * static_cast<int64_t>(size_bytes(message.dtype)));
  const MeshCommunicators::Channel channel = communicators_->channel(message.stage, message.stream, message.sends);
  void* const data = addresses[static_cast<size_t>(message.holding.buffer)];
  const Message end{channel.peer, message.stream, message.count, message.dtype};
  message.sends ? channel.communicator.send(end, data, queue) : channel.communicator.receive(end, data, queue);
  if (!device_.target().runs_asynchronously()) communicators_->progress().end_collectives();
}

// Groups are made by all ranks in the order in which their programs name them.
void Executor::find_groups() {
  std::vector<Communicator*> groups;
  for (const Instruction& instruction : program_.instructions) {
    groups.push_back(nullptr);
    const auto* collectives = std::get_if<Collectives>(&instruction.work);
    const bool is_message = std::holds_alternative<StageMessage>(instruction.work);
    if (is_message && communicators_ == nullptr)
      throw Error(ErrorKind::kInvalidArgument,
                  "the program exchanges data with other stages, and its context has no communicators", "collectives",
                  "Open the context with the communicators of its mesh.");
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

void Executor::run(std::span<void* const> addresses, const ExecutionOnlooker& onlooker) {
  if (groups_.size() != program_.instructions.size()) find_groups();
  try {
    queue_all(addresses, onlooker);
  } catch (...) {
    // The buffers may go back to the compute queue's order now, and other queues may still use them.
    try {
      device_.synchronize();
      clear_task_counter(addresses);
    } catch (...) {  // The first error says more, and while a run is recorded nothing is under way.
    }
    throw;
  }
}

// A kernel that failed may have left tasks.
void Executor::clear_task_counter(std::span<void* const> addresses) {
  for (size_t b = 0; b < program_.buffers.size(); ++b)
    if (program_.buffers[b].place == ProgramBuffer::Place::kTaskCounter)
      device_.fill_with_zeros(addresses[b], static_cast<size_t>(program_.buffers[b].bytes));
}

bool Executor::writes_held_memory(std::span<void* const> addresses) const {
  if (held_ == nullptr || held_->empty()) return false;
  return std::ranges::any_of(program_.instructions, [&](const Instruction& instruction) {
    return std::ranges::any_of(instruction.accesses(), [&](const Access& access) {
      return access.written && held_->event(addresses[static_cast<size_t>(access.holding.buffer)]) != nullptr;
    });
  });
}

void Executor::wait_for_held_memory(const Instruction& instruction, std::span<void* const> addresses) {
  for (const Access& access : instruction.accesses()) {
    if (!access.written) continue;
    const DeviceEvent* event = held_->event(addresses[static_cast<size_t>(access.holding.buffer)]);
    if (event == nullptr || !waited_.emplace(instruction.queue, event).second) continue;
    // Marks of a device that shares the host's memory would wait for all of its queues.
    const bool timed = instruction.queue == kComputeQueue && !device_.shares_host_memory();
    const std::shared_ptr<DeviceMoment> from = timed ? device_.mark() : nullptr;
    device_.wait(*event, instruction.queue);
    if (timed) held_->note_wait(from, device_.mark());
  }
}

// A launch in that queue, which nothing follows there.
bool Executor::is_launch_alone(const Instruction& instruction, DeviceQueue queue) {
  const auto* launch = std::get_if<Launch>(&instruction.work);
  return launch != nullptr && instruction.queue == queue && instruction.sets == kNoSignal && !launch->phases.empty() &&
         launch->phases.back().tasks > 0;
}

void Executor::queue_all(std::span<void* const> addresses, const ExecutionOnlooker& onlooker) {
  const bool begin_is_awaited =
      std::any_of(program_.instructions.begin(), program_.instructions.end(), [](const Instruction& instruction) {
        const auto* wait = std::get_if<Wait>(&instruction.work);
        return wait != nullptr && wait->signal == kBegin;
      });
  if (begin_is_awaited) device_.signal(event(kBegin), kComputeQueue);
  waited_.clear();
  const bool holds = held_ != nullptr && !held_->empty();
  for (size_t i = 0; i < program_.instructions.size(); ++i) {
    const Instruction& instruction = program_.instructions[i];
    const DeviceQueue queue = instruction.queue;
    if (holds) wait_for_held_memory(instruction, addresses);
    const bool is_wait = std::holds_alternative<Wait>(instruction.work);
    if (onlooker.before && !is_wait) onlooker.before(instruction);
    follows_launch_ = i > 0 && is_launch_alone(program_.instructions[i - 1], queue) && !onlooker.before && !holds;
    if (const auto* launch = std::get_if<Launch>(&instruction.work)) {
      this->launch(*launch, queue, addresses);
    } else if (const auto* copy = std::get_if<Copy>(&instruction.work)) {
      this->copy(*copy, queue, addresses);
    } else if (const auto* collectives = std::get_if<Collectives>(&instruction.work)) {
      exchange(*collectives, *groups_[i], queue, addresses);
    } else if (const auto* message = std::get_if<StageMessage>(&instruction.work)) {
      exchange(*message, queue, addresses);
    } else {
      device_.wait(event(std::get<Wait>(instruction.work).signal), queue);
    }
    if (instruction.sets != kNoSignal) device_.signal(event(instruction.sets), queue);
    if (onlooker.after && !is_wait) onlooker.after(instruction);
  }
}

}  // namespace causeway::program
