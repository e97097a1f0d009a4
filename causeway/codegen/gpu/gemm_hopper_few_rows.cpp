#include "causeway/codegen/gpu/gemm_hopper_few_rows.h"

#include <algorithm>

#include "causeway/codegen/divide_up.h"
#include "causeway/codegen/gpu/gemm_sizes.h"

namespace causeway::codegen {
namespace {

// Bytes in a microsecond of an H200: of memory, of what all blocks ask of the second-level cache, and of one block,
// beside whose lines of B those of A, which lie in that cache, count half. After four GEMMs of Llama 3 8B with 32 rows
// (docs/log/decode.md).
constexpr double kMemory = 4.15e6, kCache = 7e6, kBlock = 6e4, kLineOfA = 0.5;
constexpr int kMostSplits = 8;
constexpr int kLeastColumns = 48, kMostColumns = 256;

// Microseconds, beside what any launch takes. Each block reads `slices` of k.
double time_of(const HopperGemmTile& tile, int splits, int64_t blocks, int64_t slices, int64_t m, int64_t n,
               int64_t k) {
  const HopperGemmOneTileTimes& times = hopper_gemm_figures().one_tile;
  const double slice_bytes = 2.0 * kHopperGemmDepth, of_part = slice_bytes * static_cast<double>(slices);
  const double weights = 2.0 * static_cast<double>(n * k), rows = static_cast<double>(m) * of_part;
  double time = std::max({weights / kMemory, (weights + static_cast<double>(blocks) * rows) / kCache,
                          (tile.n + kLineOfA * static_cast<double>(m)) * of_part / kBlock});
  time += std::max(0.0, tile.m * tile.n - times.few_results) * times.result;
  if (splits > 1)
    time += times.combine_launch + 2 * static_cast<double>(blocks) * tile.m * tile.n *
                                       static_cast<double>(sizeof(float)) / times.combine_bytes;
  return time;
}

}  // namespace

std::optional<HopperGemmPlan> choose_hopper_gemm_of_few_rows(const GpuArchitecture& architecture, int64_t m, int64_t n,
                                                             int64_t k) {
  std::optional<HopperGemmPlan> best;
  double shortest = 0;
  const int64_t slices = divide_up(k, int64_t{kHopperGemmDepth});
  // Of tiles that take as long the widest: fewer ask for the same lines of A.
  for (int columns = kMostColumns; columns >= kLeastColumns; columns -= 16) {
    HopperGemmTile tile = {.m = 64, .n = columns, .b_along_k = true, .results_in_stages = true, .rows_together = 1};
    for (int splits = 1; splits <= kMostSplits; ++splits) {
      const int64_t each = divide_up(slices, int64_t{splits}), blocks = divide_up(n, int64_t{columns}) * splits;
      if (blocks > architecture.parallel_units) break;
      if (splits > 1 && (each * kHopperGemmDepth < kGpuGemmLeastSplitK || each * (splits - 1) >= slices)) continue;
      const double time = time_of(tile, splits, blocks, each, m, n, k);
      if (best && time >= shortest) continue;
      shortest = time;
      tile.stages = hopper_gemm_best_stages(tile);
      best = {.tile = tile, .splits = splits};
    }
  }
  return best;
}

}  // namespace causeway::codegen
