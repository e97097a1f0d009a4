#include "causeway/codegen/gpu/gemm_wave_tile.h"

#include <fmt/format.h>

#include <algorithm>

#include "causeway/base/error.h"
#include "causeway/codegen/divide_up.h"
#include "causeway/codegen/gpu/gemm_sizes.h"
#include "causeway/codegen/gpu/loops.h"

namespace causeway::codegen {
namespace {

// What one multiprocessor multiplies in a microsecond, at best. Set by hand: what matters is how they compare with the
// cost of a launch and of adding up parts.
struct WaveGemmRate {
  GpuArchitecture::WaveMatrix instructions;
  WaveGemmOperand operand;
  double multiply_adds;
};
constexpr WaveGemmRate kWaveGemmRates[] = {
    {GpuArchitecture::WaveMatrix::kMmaSync, WaveGemmOperand::kHalf, 1.4e6},
    {GpuArchitecture::WaveMatrix::kMmaSync, WaveGemmOperand::kTf32, 0.7e6},
    {GpuArchitecture::WaveMatrix::kMmaSync, WaveGemmOperand::kFloat, 0.09e6},
    {GpuArchitecture::WaveMatrix::kMfma, WaveGemmOperand::kHalf, 2.0e6},
    {GpuArchitecture::WaveMatrix::kMfma, WaveGemmOperand::kTf32, 1.0e6},
    {GpuArchitecture::WaveMatrix::kMfma, WaveGemmOperand::kFloat, 0.25e6},
};
// Bytes that all multiprocessors move in a microsecond while parts of k are added up, and what that launch takes.
constexpr double kWaveGemmCombineBytes = 2e6, kWaveGemmCombineLaunch = 3;

double multiply_adds_of(const GpuArchitecture& architecture, WaveGemmOperand operand) {
  const auto rate = std::ranges::find_if(kWaveGemmRates, [&](const WaveGemmRate& candidate) {
    return candidate.operand == operand && candidate.instructions == architecture.wave_matrix;
  });
  CAUSEWAY_CHECK(rate != std::end(kWaveGemmRates), "no rate of multiply-adds on {}", architecture.processor);
  return rate->multiply_adds;
}

// Calls `offer(splits, microseconds)` for each way to cut k. `multiply_adds`: of a multiprocessor in a microsecond.
template <class Offer>
void for_each_split(const GpuGemmSizes& sizes, const GpuGemmTile& tile, int64_t units, double multiply_adds,
                    Offer&& offer) {
  const int64_t tiles = sizes.batch * divide_up(sizes.m, tile.m) * divide_up(sizes.n, tile.n);
  for (int splits = 1; splits <= kGpuGemmMostSplits; ++splits) {
    const int64_t split_k = gpu_gemm_split_k(sizes.k, splits, tile.k);
    if (splits > 1 && (!sizes.all_known || split_k < kGpuGemmLeastSplitK)) return;
    if (splits > 1 && split_k * (splits - 1) >= sizes.k) continue;  // a part would be empty
    const auto rounds = static_cast<double>(divide_up(tiles * splits, units));
    double time = rounds * tile.m * tile.n * static_cast<double>(split_k) / multiply_adds;
    if (splits > 1)
      time += kWaveGemmCombineLaunch +
              8.0 * splits * static_cast<double>(sizes.batch * sizes.m * sizes.n) / kWaveGemmCombineBytes;
    offer(splits, time);
  }
}

// What waves multiply.
GpuGemmMainloopPlan multiplied_by_waves(const GpuGemmProblem& problem, const GpuArchitecture& architecture) {
  // Where warpgroups multiply 8-bit operands, waves do not.
  const bool pairs = architecture.has_f8_matrix && !architecture.has_warpgroup_matrix && problem.may_multiply_pairs() &&
                     problem.a.is_multiple(2) && problem.b.is_multiple(2);
  const bool tf32 = problem.type == GpuGemmType::kF32 && problem.rounds_to_tf32 && architecture.has_tf32_matrix;
  return multiplied_as(pairs ? GpuGemmType::kF8Pair : tf32 ? GpuGemmType::kTf32 : problem.type, problem);
}

}  // namespace

WaveGemmOperand wave_gemm_operand(GpuGemmType type) {
  return type == GpuGemmType::kF32    ? WaveGemmOperand::kFloat
         : type == GpuGemmType::kTf32 ? WaveGemmOperand::kTf32
                                      : WaveGemmOperand::kHalf;
}

std::optional<WaveGemmChoice> choose_wave_gemm(std::span<const WaveGemmSchedule> schedules,
                                               const GpuGemmProblem& problem, const GpuArchitecture& architecture) {
  const GpuGemmMainloopPlan multiplied = multiplied_by_waves(problem, architecture);
  const WaveGemmOperand operand = wave_gemm_operand(multiplied.type);
  const auto size = [&](const Dim& dim) { return problem.fixed_order ? kUnknownSize : known_size(dim); };
  const bool few_rows = !problem.fixed_order && is_skinny_gemm_side(problem.m);
  const bool few_columns = !problem.fixed_order && is_skinny_gemm_side(problem.n);
  const WaveGemmSides sides = few_rows      ? WaveGemmSides::kSkinnyM
                              : few_columns ? WaveGemmSides::kSkinnyN
                                            : WaveGemmSides::kLarge;
  const double multiply_adds = multiply_adds_of(architecture, operand);
  const GpuGemmSizes sizes(size(problem.batch), size(problem.m), size(problem.n), known_size(multiplied.k));
  std::optional<WaveGemmChoice> best;
  for (const WaveGemmSchedule& candidate : schedules) {
    if (candidate.operand != operand || candidate.sides != sides || candidate.instructions != architecture.wave_matrix)
      continue;
    for_each_split(sizes, candidate.tile, architecture.parallel_units, multiply_adds * candidate.efficiency,
                   [&](int splits, double time) {
                     if (best && best->microseconds != 0 && time >= best->microseconds) return;
                     best = {candidate.tile, splits, time};
                   });
  }
  return best;
}

GpuGemmPlan plan_wave_gemm(const WaveGemmChoice& choice, const GpuGemmProblem& problem,
                           const GpuArchitecture& architecture) {
  GpuGemmPlan plan;
  plan.mainloop = multiplied_by_waves(problem, architecture);
  plan.mainloop.tile = choice.tile;
  plan.scheduler.splits = choice.splits;
  return plan;
}

std::string gemm_tile_text(const GpuGemmTile& tile) {
  return fmt::format(
      "static constexpr GpuGemmTile kTile = {{.m = {}, .n = {}, .k = {}, .wave_m = {}, .wave_n = {}, .stages = {}, "
      ".blocks_per_unit = {}, .ping_pong = {}}};",
      tile.m, tile.n, tile.k, tile.wave_m, tile.wave_n, tile.stages, tile.blocks_per_unit, tile.ping_pong);
}

std::string wave_gemm_members(const GpuGemmPlan& plan) {
  return gemm_tile_text(*plan.mainloop.tile_of<GpuGemmTile>()) + "\n";
}

GpuGemmLaunch launch_wave_gemm(const GpuGemmProblem& problem, const GpuGemmPlan& plan,
                               const GpuArchitecture& architecture) {
  const GpuGemmMainloopPlan& mainloop = plan.mainloop;
  const auto tile = *mainloop.tile_of<GpuGemmTile>();
  const int splits = plan.scheduler.splits, lanes = plan.epilogue.store_lanes;
  // Copies that pass through registers transpose what is not contiguous in k.
  const bool k_major = !architecture.copies_asynchronously;
  const int shared =
      gpu_gemm_shared_bytes(tile, k_major || mainloop.a.contiguous_in_k, k_major || mainloop.b.contiguous_in_k,
                            operand_bytes(wave_gemm_operand(mainloop.type)));
  GpuGemmLaunch launch;
  launch.blocks_per_unit = tile.blocks_per_unit;
  launch.run = gpu_phase(
      kGpuGemmRun, gpu_gemm_waves(tile) * architecture.wave_width, shared,
      [matrices = problem.batch * Dim(splits), m = problem.m, n = problem.n, tile](const SymbolBindings& bindings) {
        return matrices.evaluate(bindings) * divide_up(m.evaluate(bindings), tile.m) *
               divide_up(n.evaluate(bindings), tile.n);
      });
  if (splits == 1) return launch;
  const Dim count = problem.batch * problem.m * problem.n;
  launch.combine = gpu_phase(kGpuGemmCombine, kGpuGemmCombineThreads, 0, [=](const SymbolBindings& bindings) {
    return divide_up(count.evaluate(bindings) / lanes, kGpuGemmCombineThreads);
  });
  launch.workspace_bytes = [=](const SymbolBindings& bindings) {
    return count.evaluate(bindings) * splits * static_cast<int64_t>(sizeof(float));
  };
  return launch;
}

}  // namespace causeway::codegen
