// The tensor maps by which TMA loads the operands of attention_hopper.h and its gradients.
#pragma once

#include <vector>

#include "causeway/codegen/gpu/attention_problem.h"
#include "causeway/codegen/kernel.h"

namespace causeway::codegen {

// Rows in memory whose tensor is the argument of that number, and how many of them a box has.
struct MappedAttentionRows {
  GpuAttentionRows rows;
  int argument;
  int box_lines;
};

// In the order of the maps: [D][T][H][B] in boxes of 64 columns. Null where there are none.
TensorMapFunction attention_tensor_maps(std::vector<MappedAttentionRows> operands);

}  // namespace causeway::codegen
