// What a program needs beside its inputs and outputs, for given sizes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "causeway/program/instruction.h"

namespace causeway::program {

struct ProgramMemory {
  int64_t arena_bytes = 0;  // values and workspaces at fixed offsets
  int64_t input_bytes = 0;  // all inputs on the device: data, parameters, state
  int64_t output_bytes = 0;
  int64_t task_counter_bytes = 0;  // of the one that all programs of a context share, where this one takes tasks
  // Of the host's memory: inputs that lie there, and values that are kept there between forward and backward.
  int64_t host_input_bytes = 0;
  int64_t host_arena_bytes = 0;
  struct Item {
    std::string name;  // what the buffer holds: "dot bf16[4096, 3072] (layers.0.mlp)"
    int64_t bytes = 0;
  };
  std::vector<Item> largest;  // of the arena, at most 10; workspaces are not among them
};

ProgramMemory count_memory(const LoweredProgram& program);

}  // namespace causeway::program
