#include "causeway/program/fusion.h"

#include <utility>

#include "causeway/program/horizontal_fusion.h"
#include "causeway/program/kernel_clusters.h"
#include "causeway/program/kernel_merges.h"
#include "causeway/program/materialization.h"

namespace causeway::program {

FusionResult fuse(const Graph& graph, const Target& target, bool fixed_order) {
  const FusionProblem problem(graph, target, fixed_order);
  Materialization materialization = choose_materialized(problem);
  const MaterializedValues& materialized = materialization.values;
  FusedKernels kernels = cluster_values(problem, materialization);
  if (problem.rules.joins_column_sums) kernels = merge_column_sums(problem, materialized, std::move(kernels));
  kernels = choose_stored_members(problem, materialized, std::move(kernels));
  std::vector<KernelRequest> requests;
  if (problem.rules.shares_launches) {
    kernels = merge_rows_into_gemms(problem, materialized, std::move(kernels));
    requests = fuse_horizontally(problem, materialized, kernels);
  } else {
    requests = std::move(kernels).take_requests();
  }
  return {std::move(materialization.values), std::move(requests)};
}

}  // namespace causeway::program
