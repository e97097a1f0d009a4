// Where the values of one run live in one arena: buffers that may be in use at the same time never share bytes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "causeway/program/instruction_order.h"

namespace causeway::program {

struct PlannedBuffer {
  int64_t bytes = 0;
  std::vector<InstructionOrder::Position> uses;  // the instructions that write and read it, ascending
  int64_t offset = 0;                            // filled in by plan_memory(); a multiple of kArenaAlignment
};

constexpr int64_t kArenaAlignment = 64;

// Assigns offsets, largest buffers first, each at the lowest free place (Pisarchyk and Lee, arXiv 2001.03288, greedy by
// size). Two buffers may share bytes where, whatever the queues' speed, every use of one has ended when any of the
// other begins. Returns the arena's size in bytes.
int64_t plan_memory(std::span<PlannedBuffer> buffers, const InstructionOrder& order);

}  // namespace causeway::program
