// The plan of a column reduction on a GPU: the threads of a block are rows of neighbouring columns; each walks its
// share of the reduced elements, and the rows are then added up in order. Long reductions are cut into parts that a
// second launch adds up.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "causeway/codegen/expressions/element_walk.h"
#include "causeway/codegen/expressions/loop_plan.h"
#include "causeway/codegen/gpu/loops.h"
#include "causeway/codegen/kernel_writers.h"

namespace causeway::codegen {

struct GpuColumnReducePlan {
  // The members, by their positions in the request: reductions of one shape over the same axes, and values of that
  // shape, which are stored on the way.
  std::vector<size_t> reductions, elements;
  // The reductions' input as [outer, reduced, inner], or with outer and reduced axes mixed. Outer axes are kGrid,
  // reduced ones kTeam, as the rows of a block's threads take them in turn, columns kBlock; the last axis is kLane.
  std::vector<LoopAxis> axes;
  Dim outer{1}, reduced{1}, inner{1};
  bool adjacent = false;  // the reduced axes follow one another
  DType index_type = DType::kI64;
  int lanes = 1;
  Dim vectors{1};                          // of lanes neighbouring columns
  int block_columns = 32, block_rows = 8;  // threads side by side on vectors, and in their rows
  int64_t parts = 1;                       // of a reduction; more than one are added up by a second launch
  int blocks_per_unit = 1;                 // at a time on a multiprocessor
  int accumulator_bytes = 1;
  // Steps of a thread that are written side by side; of one that stores elements, whose loads all come before their
  // stores.
  int unrolled = 4, grouped = 2;
  int shared_bytes = 0;
  // Of the second launch, and of what it adds up.
  GpuPartsLaunch finish;
  int finish_shared_bytes = 0;
  Dim workspace_bytes{0};

  int lane_variable() const { return static_cast<int>(axes.size()) - 1; }
};

GpuColumnReducePlan plan_gpu_column_reduce(const KernelInputs& inputs);

// The axes' variables, in order; what a walk needs besides comes behind them.
IndexVariables variables_of(const GpuColumnReducePlan& plan);
// The running number of the axes of a mapping; the lanes belong to the columns.
Index running_index(const GpuColumnReducePlan& plan, AxisMapping mapping);
// The position in the input of `reduction` that the loops are at.
ElementPosition column_reduce_position(const GpuColumnReducePlan& plan, const Graph& graph, Value reduction,
                                       ElementWalk& walk);

}  // namespace causeway::codegen
