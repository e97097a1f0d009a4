// Which values of a graph get memory, and which kernels compute them.
//
// Everything that need not be in memory is computed inside the kernels that use it. A value gets memory when something
// outside loops reads it (a template, a scan, a collective, an output), when it is a sum, and when computing it again
// would cost more than reading it. Values with memory are then gathered into kernels, in order, greedily: a value joins
// a recent kernel that works on the same elements and shares what it reads. On a GPU, sums over rows go into the kernel
// that walks over those rows for other sums, and small loops that are alike share launches (horizontal_fusion.h). A
// collective is a kernel of its own; collectives keep the order of the graph, which all ranks share. Last, a GPU's
// GEMMs of one or two rows take over the loop that computes their operand for them alone.
#pragma once

#include <vector>

#include "causeway/codegen/kernel.h"
#include "causeway/graph/graph.h"

namespace causeway::program {

struct FusionResult {
  MaterializedValues materialized;
  std::vector<KernelRequest> kernels;  // in an order in which they may run
};

// `fixed_order`: of all kernels (KernelRequest).
FusionResult fuse(const Graph& graph, const Target& target, bool fixed_order = false);

}  // namespace causeway::program
