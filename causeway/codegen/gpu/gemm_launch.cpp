#include "causeway/codegen/gpu/gemm_launch.h"

#include "causeway/codegen/gpu/gemm_tensor_maps.h"
#include "causeway/codegen/gpu/loops.h"

namespace causeway::codegen {
namespace {

constexpr char kRunFunction[] = "kernel_run", kCombineFunction[] = "kernel_combine";

GpuGemmLaunch launch_portable(const GpuGemmProblem& problem, const GpuGemmPlan& plan,
                              const GpuArchitecture& architecture) {
  const GpuGemmMainloop& mainloop = plan.mainloop;
  const GpuGemmTile tile = *mainloop.portable();
  const int splits = plan.scheduler.splits, lanes = plan.epilogue.store_lanes;
  // Copies that pass through registers transpose what is not contiguous in k.
  const bool k_major = !architecture.copies_asynchronously;
  const int shared =
      gpu_gemm_shared_bytes(tile, k_major || mainloop.a.contiguous_in_k, k_major || mainloop.b.contiguous_in_k,
                            operand_bytes(portable_operand(mainloop.type)));
  GpuGemmLaunch launch;
  launch.include = tile.ping_pong ? "causeway/kernels/gpu/gemm_cdna.h" : "causeway/kernels/gpu/gemm.h";
  launch.blocks_per_unit = tile.blocks_per_unit;
  launch.run = gpu_phase(
      kRunFunction, gpu_gemm_waves(tile) * architecture.wave_width, shared,
      [matrices = problem.batch * Dim(splits), m = problem.m, n = problem.n, tile](const SymbolBindings& bindings) {
        return matrices.evaluate(bindings) * gemm_ceil_div(m.evaluate(bindings), tile.m) *
               gemm_ceil_div(n.evaluate(bindings), tile.n);
      });
  if (splits == 1) return launch;
  const Dim count = problem.batch * problem.m * problem.n;
  launch.combine_function = "gemm_combine";
  launch.combine = gpu_phase(kCombineFunction, kGpuGemmCombineThreads, 0, [=](const SymbolBindings& bindings) {
    return gemm_ceil_div(count.evaluate(bindings) / lanes, kGpuGemmCombineThreads);
  });
  launch.workspace_bytes = [=](const SymbolBindings& bindings) {
    return count.evaluate(bindings) * splits * static_cast<int64_t>(sizeof(float));
  };
  return launch;
}

GpuGemmLaunch launch_skinny(const GpuGemmProblem& problem, const GpuGemmPlan& plan,
                            const GpuArchitecture& architecture) {
  const SkinnyGemmTile tile = *plan.mainloop.skinny();
  GpuGemmLaunch launch;
  launch.include = "causeway/kernels/gpu/skinny_gemm.h";
  launch.begins_early = true;
  launch.blocks_per_unit = kSkinnyGemmWavesPerUnit / tile.waves;
  launch.run =
      gpu_phase(kRunFunction, tile.waves * architecture.wave_width,
                skinny_gemm_shared_bytes(tile, static_cast<int>(problem.m.constant()), problem.k.constant()),
                [batch = problem.batch, n = problem.n, tile](const SymbolBindings& bindings) {
                  return batch.evaluate(bindings) * gemm_ceil_div(n.evaluate(bindings), tile.columns) * tile.parts;
                });
  launch.run.cluster = plan.scheduler.cluster;
  return launch;
}

GpuGemmLaunch launch_hopper(const GpuGemmProblem& problem, const GpuGemmPlan& plan) {
  const HopperGemmTile tile = *plan.mainloop.hopper();
  const auto& [persistent, cluster, splits, whole_tiles, split_tiles] = plan.scheduler;
  GpuGemmLaunch launch;
  launch.include = "causeway/kernels/gpu/gemm_hopper.h";
  launch.tensor_maps = 2;
  if (plan.epilogue.stores_by_tma) {
    const auto& [members, stored, fetched] = problem.epilogue;
    launch.tensor_maps +=
        static_cast<int>((stored.size() + fetched.size()) * gemm_stored_columns(tile, stored.front()).size());
  }
  launch.run = gpu_phase(kRunFunction, hopper_gemm_threads(tile), hopper_gemm_shared_bytes(tile),
                         [tile, batch = problem.batch, rows = plan.mainloop.a.lines, columns = plan.mainloop.b.lines,
                          more = split_tiles * (splits - 1)](const SymbolBindings& bindings) {
                           const int64_t tiles =
                               batch.evaluate(bindings) *
                               gemm_ceil_div(rows.evaluate(bindings), hopper_gemm_cluster_rows(tile)) *
                               gemm_ceil_div(columns.evaluate(bindings), hopper_gemm_cluster_columns(tile));
                           return (tiles + more) * hopper_gemm_cluster(tile);
                         });
  launch.run.persistent = persistent;
  launch.run.cluster = cluster;
  if (splits == 1) return launch;
  launch.combine_function = "hopper_gemm_combine";
  launch.combine =
      gpu_phase(kCombineFunction, kHopperGemmCombineThreads, kHopperGemmCombineShared,
                [blocks = split_tiles * hopper_gemm_combine_blocks(tile)](const SymbolBindings&) { return blocks; });
  launch.workspace_bytes = [bytes = split_tiles * splits * cluster * tile.m * tile.n *
                                    static_cast<int64_t>(sizeof(float))](const SymbolBindings&) { return bytes; };
  return launch;
}

}  // namespace

GpuGemmLaunch launch_gemm(const GpuGemmProblem& problem, const GpuGemmPlan& plan, const GpuArchitecture& architecture) {
  if (plan.mainloop.hopper() != nullptr) return launch_hopper(problem, plan);
  if (plan.mainloop.skinny() != nullptr) return launch_skinny(problem, plan, architecture);
  return launch_portable(problem, plan, architecture);
}

}  // namespace causeway::codegen
