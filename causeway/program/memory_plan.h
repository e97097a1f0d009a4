// Where the values of one run live in one arena: values whose lifetimes overlap never share bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::program {

struct PlannedBuffer {
  int64_t bytes = 0;
  int first_step = 0;  // the step that writes it
  int last_step = 0;   // the last step that reads it
  int64_t offset = 0;  // filled in by plan_memory(); a multiple of kArenaAlignment
};

constexpr int64_t kArenaAlignment = 64;

// Assigns offsets, largest buffers first, each at the lowest free place (Pisarchyk and Lee, arXiv 2001.03288, greedy by
// size). Returns the arena's size in bytes.
int64_t plan_memory(std::vector<PlannedBuffer>& buffers);

}  // namespace causeway::program
