// The first part of fusion: which values get memory.
//
// Everything that need not be in memory is computed inside the kernels that use it. A value gets memory when something
// outside loops reads it (a template, a scan, a collective, an output), when it is a sum, and when computing it again
// would cost more than reading it.
#pragma once

#include <vector>

#include "causeway/program/fusion_problem.h"
#include "causeway/program/recompute_cost.h"

namespace causeway::program {

struct Materialization {
  MaterializedValues values;
  RecomputeCosts costs;
  // By node: elementwise values that a reduction reads.
  std::vector<bool> feeds_reduction;
};

Materialization choose_materialized(const FusionProblem& problem);

}  // namespace causeway::program
