// Which values of a graph get memory, and which kernels compute them. In three parts: what gets memory
// (materialization.h), which kernels compute it (kernel_clusters.h), and which kernels become part of others
// (kernel_merges.h, horizontal_fusion.h).
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
