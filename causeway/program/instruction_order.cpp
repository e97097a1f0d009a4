#include "causeway/program/instruction_order.h"

#include <algorithm>
#include <map>

namespace causeway::program {

InstructionOrder::InstructionOrder(std::span<const Instruction> instructions) {
  for (const Instruction& instruction : instructions) {
    queue_of_.push_back(instruction.queue);
    queues_ = std::max(queues_, instruction.queue + 1);
  }
  using Clock = std::vector<Position>;
  const auto queues = static_cast<size_t>(queues_);
  std::vector<Clock> reached(queues, Clock(queues, kNever));  // what each queue knows to have ended
  reached[kComputeQueue][kComputeQueue] = kStart;
  std::map<Signal, Clock> signals = {{kBegin, reached[kComputeQueue]}};
  clocks_.reserve((instructions.size() + 1) * queues);
  for (size_t i = 0; i < instructions.size(); ++i) {
    const Instruction& instruction = instructions[i];
    Clock& known = reached[static_cast<size_t>(instruction.queue)];
    if (const auto* wait = std::get_if<Wait>(&instruction.work))
      if (const auto set = signals.find(wait->signal); set != signals.end())
        for (size_t q = 0; q < queues; ++q) known[q] = std::max(known[q], set->second[q]);
    clocks_.insert(clocks_.end(), known.begin(), known.end());
    known[static_cast<size_t>(instruction.queue)] = static_cast<Position>(i);
    if (instruction.sets != kNoSignal) signals[instruction.sets] = known;
  }
  clocks_.insert(clocks_.end(), reached[kComputeQueue].begin(), reached[kComputeQueue].end());
}

DeviceQueue InstructionOrder::queue_of(Position position) const {
  return position == kStart || position == end() ? kComputeQueue : queue_of_[static_cast<size_t>(position)];
}

bool InstructionOrder::before(Position first, Position second) const {
  if (second == kStart || first == end()) return false;
  return clock(second)[queue_of(first)] >= first;
}

}  // namespace causeway::program
