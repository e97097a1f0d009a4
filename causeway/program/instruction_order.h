// Which instructions have ended before another begins, whatever the queues' speed: the happens-before order that
// queues, signals and waits give (Lamport 1978; kept as vector clocks, one entry a queue, Fidge 1988).
#pragma once

#include <span>
#include <vector>

#include "causeway/program/instruction.h"

namespace causeway::program {

class InstructionOrder {
 public:
  // A position in the list, kStart for the program's begin, or end().
  using Position = int;
  static constexpr Position kStart = -1;

  // A wait for what no earlier instruction sets orders nothing.
  explicit InstructionOrder(std::span<const Instruction> instructions);

  Position end() const { return static_cast<Position>(queue_of_.size()); }
  // How many queues there are: one more than the highest that is named.
  int queues() const { return queues_; }
  // Of the start and the end: the compute queue.
  DeviceQueue queue_of(Position position) const;
  // Whether the first has ended when the second begins. Nothing is before itself.
  bool before(Position first, Position second) const;

 private:
  static constexpr Position kNever = -2;

  const Position* clock(Position position) const {
    return &clocks_[static_cast<size_t>(position) * static_cast<size_t>(queues_)];
  }

  int queues_ = 1;
  std::vector<DeviceQueue> queue_of_;
  // For each instruction and at last the end, by queue: the last position there that comes before it, or kNever.
  std::vector<Position> clocks_;
};

}  // namespace causeway::program
