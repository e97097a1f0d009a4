// The plan of a loop kernel on a processor: a task is a range of rows, or of the elements when there are no rows.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "causeway/codegen/expressions/loop_plan.h"
#include "causeway/codegen/kernel_writers.h"

namespace causeway::codegen {

struct CpuLoopPlan : LoopPlan {
  static constexpr int64_t kBlock = 512;  // elements

  enum class Reduction {
    kReassociated,  // in an order that the compiler chooses
    kInOrder,
    kLargest,
    kLargestKey,  // of f32, by integers that are ordered as they are
  };
  // What is read side by side along the innermost loop, from where that loop begins.
  struct Prefetch {
    Value value;
    Index first;
  };

  // Tasks are ranges of the only loop's elements; otherwise of rows.
  bool is_flat = false;
  Dim count{1};  // of elements, or rows
  int64_t per_task = 1;
  std::map<size_t, Reduction> reductions;  // by the member's position
  // By phase. Where there are any, the innermost loop goes in blocks of kBlock: while one is computed, the next one's
  // operands are on their way.
  std::vector<std::vector<Prefetch>> prefetches;

  bool is_vectorized() const { return axes.back().mapping == AxisMapping::kVector; }
};

// The plan, or what of it there is when there is an obstacle.
CpuLoopPlan plan_cpu_loop(const KernelInputs& inputs);

}  // namespace causeway::codegen
