// When the instructions of one run of a program were at work, and what that says of computation and communication.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "causeway/device/device.h"
#include "causeway/program/executor.h"
#include "causeway/program/instruction.h"

namespace causeway::program {

// In seconds of the host's std::chrono::steady_clock.
struct InstructionTime {
  int instruction = 0;  // position in LoweredProgram::instructions
  double start = 0;
  double end = 0;
};

struct InstructionLabel {
  enum class Kind { kWait, kKernel, kCopy, kCollective, kMessage };
  Kind kind = Kind::kWait;
  std::string name;   // "dot", "copy", "all_gather", "send"
  std::string scope;  // "layers.0.mlp"; of a copy what it holds
  DeviceQueue queue = kComputeQueue;
  int64_t bytes = 0;       // copied or sent; or of the rank's larger buffers of the collectives
  std::string group = {};  // of collectives
  int parts = 0;           // how many collectives go in one
  // Of a message
  bool sends = false;
  int64_t stage = 0;  // the other's
  int stream = 0;
};

// Runs the program and waits for its end. An instruction begins when its queue has come to it, after whatever that
// queue waits for.
std::vector<InstructionTime> time_instructions(const LoweredProgram& program, Executor& executor,
                                               std::span<void* const> addresses, Device& device);

// Seconds of a run.
struct WorkSeconds {
  double compute = 0;        // while at least one kernel or copy was at work
  double communication = 0;  // while at least one collective or message between stages was
  double exposed = 0;        // of communication: while nothing else was at work

  WorkSeconds& operator+=(const WorkSeconds& other);
};
WorkSeconds work_seconds(const LoweredProgram& program, std::span<const InstructionTime> times);

}  // namespace causeway::program
