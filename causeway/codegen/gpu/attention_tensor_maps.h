// The tensor maps by which TMA loads the operands of attention_hopper.h and its gradients.
#pragma once

#include <utility>
#include <vector>

#include "causeway/codegen/gpu/attention_problem.h"
#include "causeway/codegen/kernel.h"

namespace causeway::codegen {

// Of rows in memory, each with the position of its tensor among the kernel's arguments, in their order: [D][T][H][B] in
// boxes of 64 x 64. Null where there are none.
TensorMapFunction attention_tensor_maps(std::vector<std::pair<GpuAttentionRows, int>> rows_of_arguments);

}  // namespace causeway::codegen
