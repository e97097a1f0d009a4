// GEMMs of groups of rows on every architecture (kernels/gpu/gemm_grouped.h), in the portable mainloop's tiles.
#include "causeway/codegen/divide_up.h"
#include "causeway/codegen/gpu/gemm_mainloops.h"
#include "causeway/codegen/gpu/gemm_wave_tile.h"
#include "causeway/codegen/gpu/loops.h"
#include "causeway/kernels/grouped_rows.h"

namespace causeway::codegen {
namespace {

// As if all groups had as many rows.
GpuGemmProblem of_equal_groups(const GpuGemmProblem& problem) {
  GpuGemmProblem equal = problem;
  const auto share = [&](const Dim& rows) {
    const Dim all = rows * problem.slabs;
    return all.is_constant() && problem.group_count.is_constant()
               ? Dim(divide_up(all.constant(), problem.group_count.constant()))
               : all;
  };
  equal.batch = problem.group_count;
  if (problem.groups == GpuGemmGroups::kOfRows)
    equal.m = share(problem.m);
  else
    equal.k = share(problem.k);
  return equal;
}

std::optional<GpuGemmPlan> plan_grouped(const GpuGemmProblem& problem, const GpuArchitecture& architecture) {
  std::optional<WaveGemmChoice> choice =
      choose_wave_gemm(portable_gemm_schedules(), of_equal_groups(problem), architecture);
  if (!choice) return std::nullopt;
  // Where a group's rows end is not known, so neither is where their parts would.
  choice->splits = 1;
  return plan_wave_gemm(*choice, problem, architecture);
}

GpuGemmLaunch launch_grouped(const GpuGemmProblem& problem, const GpuGemmPlan& plan,
                             const GpuArchitecture& architecture) {
  GpuGemmLaunch launch = launch_wave_gemm(problem, plan, architecture);
  if (problem.groups == GpuGemmGroups::kOfTerms) return launch;
  const GpuGemmTile tile = *plan.mainloop.tile_of<GpuGemmTile>();
  launch.run.tasks = [slabs = problem.slabs, groups = problem.group_count, m = problem.m, n = problem.n,
                      tile](const SymbolBindings& bindings) {
    return slabs.evaluate(bindings) * grouped_row_tiles(m.evaluate(bindings), groups.evaluate(bindings), tile.m) *
           divide_up(n.evaluate(bindings), tile.n);
  };
  return launch;
}

}  // namespace

const GpuGemmMainloop& portable_grouped_gemm_mainloop() {
  static constexpr GpuGemmMainloop kMainloop = {.header = "causeway/kernels/gpu/gemm_grouped.h",
                                                .run = "grouped_gemm_run",
                                                .combine = {},
                                                .grouped = true,
                                                .plan = plan_grouped,
                                                .members = wave_gemm_members,
                                                .launch = launch_grouped};
  return kMainloop;
}

}  // namespace causeway::codegen
