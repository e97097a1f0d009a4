#include "causeway/program/program_trace.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <variant>

namespace causeway::program {
namespace {

double host_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

std::vector<InstructionTime> time_instructions(const LoweredProgram& program, Executor& executor,
                                               std::span<void* const> addresses, Device& device) {
  struct Marks {
    int instruction = 0;
    std::shared_ptr<DeviceMoment> start, end;
  };
  std::vector<Marks> marks;
  marks.reserve(program.instructions.size());
  // The device's clock and the host's, at one moment: with nothing queued a mark passes at once.
  device.synchronize();
  const double before = host_seconds();
  const std::shared_ptr<DeviceMoment> origin = device.mark();
  device.synchronize();
  const double at_origin = (before + host_seconds()) / 2;
  const Instruction* first = program.instructions.data();
  executor.run(
      addresses,
      {.before =
           [&](const Instruction& instruction) {
             marks.push_back({static_cast<int>(&instruction - first), device.mark(instruction.queue), nullptr});
           },
       .after = [&](const Instruction& instruction) { marks.back().end = device.mark(instruction.queue); }});
  device.synchronize();
  std::vector<InstructionTime> times;
  times.reserve(marks.size());
  for (const Marks& one : marks)
    times.push_back({one.instruction, at_origin + device.seconds_between(*origin, *one.start),
                     at_origin + device.seconds_between(*origin, *one.end)});
  return times;
}

WorkSeconds& WorkSeconds::operator+=(const WorkSeconds& other) {
  compute += other.compute;
  communication += other.communication;
  exposed += other.exposed;
  return *this;
}

WorkSeconds work_seconds(const LoweredProgram& program, std::span<const InstructionTime> times) {
  struct Change {
    double time = 0;
    bool communicates = false;
    int by = 0;
  };
  std::vector<Change> changes;
  for (const InstructionTime& one : times) {
    const auto& work = program.instructions[static_cast<size_t>(one.instruction)].work;
    const bool communicates = std::holds_alternative<Collectives>(work) || std::holds_alternative<StageMessage>(work);
    changes.push_back({one.start, communicates, 1});
    changes.push_back({one.end, communicates, -1});
  }
  std::ranges::sort(changes, {}, &Change::time);
  WorkSeconds seconds;
  int computing = 0, communicating = 0;
  for (size_t i = 0; i + 1 < changes.size(); ++i) {
    (changes[i].communicates ? communicating : computing) += changes[i].by;
    const double passed = changes[i + 1].time - changes[i].time;
    if (computing > 0) seconds.compute += passed;
    if (communicating > 0) seconds.communication += passed;
    if (communicating > 0 && computing == 0) seconds.exposed += passed;
  }
  return seconds;
}

}  // namespace causeway::program
