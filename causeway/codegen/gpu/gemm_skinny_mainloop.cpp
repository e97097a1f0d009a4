// GEMMs with few rows (kernels/gpu/skinny_gemm.h): every block reads all rows and streams its own columns of B.
#include <fmt/format.h>

#include <limits>

#include "causeway/codegen/divide_up.h"
#include "causeway/codegen/gpu/gemm_mainloops.h"
#include "causeway/codegen/gpu/gemm_sizes.h"
#include "causeway/codegen/gpu/loops.h"
#include "causeway/kernels/gpu/skinny_gemm_layout.h"

namespace causeway::codegen {
namespace {

// Whether 32 bits number the elements of a matrix.
bool lies_within_reach(const GpuGemmOperand& operand, const Dim& lines) {
  return lines.is_constant() && operand.stride.is_constant() &&
         lines.constant() <= std::numeric_limits<uint32_t>::max() / std::max<int64_t>(1, operand.stride.constant());
}

// Whether it takes the operands as they lie.
bool serves_skinny(const GpuGemmProblem& problem, const GpuArchitecture& architecture) {
  const GpuGemmOperand &a = problem.a, &b = problem.b;
  const DType dtype = a.dtype;
  return architecture.wave_matrix == GpuArchitecture::WaveMatrix::kMmaSync && !problem.fixed_order &&
         is_skinny_gemm_side(problem.m) && problem.m.constant() > 0 &&
         (dtype == DType::kBF16 || dtype == DType::kF16) && b.dtype == dtype && a.aligned && b.aligned &&
         a.contiguous_in_k && b.contiguous_in_k && problem.k.is_constant() && problem.k.constant() > 0 &&
         problem.k.constant() % kSkinnyGemmSlice == 0 && lies_within_reach(a, problem.m) &&
         lies_within_reach(b, problem.n) && problem.b_never_changes;
}

SkinnyGemmTile choose_tile(const GpuArchitecture& architecture, int64_t batch, int64_t m, int64_t n, int64_t k) {
  // Every block reads all rows: few of them hardly count beside as many columns, many do. But most multiprocessors are
  // to have a block.
  constexpr int64_t kFewRows = 2;
  constexpr double kLeastShare = 0.7;
  // What one block of a multiprocessor's four has on its way. A cluster costs more than it gains where that is all.
  constexpr int64_t kLongestAlone = 2048;
  constexpr int kMostParts = 8, kBlocksPerUnit = 3;
  const GpuGemmSizes sizes(batch, 1, n, 1);
  const int units = architecture.parallel_units;
  const auto blocks = [&](int columns) { return sizes.batch * divide_up(sizes.n, columns); };
  SkinnyGemmTile tile;
  tile.columns = m <= kFewRows || static_cast<double>(blocks(32)) < kLeastShare * units ? 16 : 32;
  const auto may_part = [&] {
    return architecture.has_clusters && 2 * tile.parts <= kMostParts && k % (2 * tile.parts * kSkinnyGemmSlice) == 0 &&
           k / tile.parts > kLongestAlone && blocks(tile.columns) * tile.parts < int64_t{kBlocksPerUnit} * units;
  };
  while (may_part()) tile.parts *= 2;
  // More waves where a multiprocessor has a single block.
  if (blocks(tile.columns) * tile.parts <= units) tile.waves = 16;
  return tile;
}

std::optional<GpuGemmPlan> plan_skinny(const GpuGemmProblem& problem, const GpuArchitecture& architecture) {
  if (!serves_skinny(problem, architecture)) return std::nullopt;
  const int64_t m = problem.m.constant(), k = problem.k.constant();
  SkinnyGemmTile tile = choose_tile(architecture, known_size(problem.batch), m, known_size(problem.n), k);
  if (problem.threads_of_rows > 0) {
    tile.waves = problem.threads_of_rows / architecture.wave_width;
    tile.row_bytes = static_cast<int>(skinny_gemm_row_bytes(static_cast<int>(m), k));
  }
  GpuGemmPlan plan;
  plan.mainloop = multiplied_as(problem.type, problem);
  plan.mainloop.tile = tile;
  plan.scheduler.cluster = tile.parts;
  return plan;
}

std::string skinny_members(const GpuGemmPlan& plan) {
  const auto& tile = *plan.mainloop.tile_of<SkinnyGemmTile>();
  return fmt::format(
      "static constexpr SkinnyGemmTile kTile = {{.columns = {}, .waves = {}, .parts = {}, .row_bytes = {}}};\n",
      tile.columns, tile.waves, tile.parts, tile.row_bytes);
}

GpuGemmLaunch launch_skinny(const GpuGemmProblem& problem, const GpuGemmPlan& plan,
                            const GpuArchitecture& architecture) {
  const auto tile = *plan.mainloop.tile_of<SkinnyGemmTile>();
  GpuGemmLaunch launch;
  launch.begins_early = true;
  launch.blocks_per_unit = kSkinnyGemmWavesPerUnit / tile.waves;
  launch.run = gpu_phase(kGpuGemmRun, tile.waves * architecture.wave_width,
                         skinny_gemm_shared_bytes(tile, static_cast<int>(problem.m.constant()), problem.k.constant()),
                         [batch = problem.batch, n = problem.n, tile](const SymbolBindings& bindings) {
                           return batch.evaluate(bindings) * divide_up(n.evaluate(bindings), tile.columns) * tile.parts;
                         });
  launch.run.cluster = plan.scheduler.cluster;
  return launch;
}

// Whether nearly all blocks run at the same time. Each would compute the rows again: where many rounds of them follow
// one another, as in an output layer, that takes longer than a launch that does it once.
bool runs_in_few_rounds(const GpuGemmProblem& problem, const GpuArchitecture& architecture) {
  constexpr int64_t kMostRounds = 2;
  const int64_t n = known_size(problem.n);
  const SkinnyGemmTile tile = choose_tile(architecture, 1, problem.m.constant(), n, problem.k.constant());
  const int64_t at_once = int64_t{kSkinnyGemmWavesPerUnit / tile.waves} * architecture.parallel_units;
  return GpuGemmSizes(1, 1, n, 1).all_known && divide_up(n, tile.columns) * tile.parts <= kMostRounds * at_once;
}

// Rows that lie one after the other.
std::optional<GpuGemmOwnRows> own_skinny_rows(const GpuGemmProblem& problem, const GpuArchitecture& architecture) {
  constexpr int64_t kMostRows = 2;
  if (!problem.batch.is_constant(1) || !serves_skinny(problem, architecture) || problem.m.constant() > kMostRows ||
      !problem.a.offset.is_constant(0) || !(problem.m.is_constant(1) || problem.a.stride == problem.k) ||
      skinny_gemm_row_bytes(static_cast<int>(problem.m.constant()), problem.k.constant()) > kSkinnyGemmMostRowBytes ||
      !runs_in_few_rounds(problem, architecture))
    return std::nullopt;
  return GpuGemmOwnRows{.shared_offset = kSkinnyGemmSumsOfRows,
                        .most_threads = kSkinnyGemmWavesPerUnit / 2 * architecture.wave_width};
}

}  // namespace

const GpuGemmMainloop& skinny_gemm_mainloop() {
  static constexpr GpuGemmMainloop kMainloop = {.header = "causeway/kernels/gpu/skinny_gemm.h",
                                                .run = "skinny_gemm_run",
                                                .combine = {},
                                                .plan = plan_skinny,
                                                .members = skinny_members,
                                                .launch = launch_skinny,
                                                .own_rows = own_skinny_rows};
  return kMainloop;
}

}  // namespace causeway::codegen
