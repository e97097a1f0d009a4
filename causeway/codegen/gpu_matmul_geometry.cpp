#include "causeway/codegen/gpu_matmul_geometry.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "causeway/base/error.h"

namespace causeway {
namespace {

constexpr int64_t kLarge = 4096;  // what an unknown size is taken for
constexpr int64_t kThin = 16;     // sides up to this have tiles of their own
constexpr int kMostSplits = 32;
constexpr int64_t kLeastSplitK = 256;  // less is not worth a part of its own

struct Candidate {
  GpuMatmulTile tile;
  double efficiency = 1;  // part of the multipliers' speed that the tile reaches
};

std::vector<Candidate> candidates(const GpuArchitecture& architecture, int operand_bytes, bool thin_m, bool thin_n) {
  const bool nvidia = architecture.vendor == GpuArchitecture::Vendor::kNvidia;
  const bool wide = operand_bytes == 4;
  const int k = wide ? 16 : 32;
  const int stages = nvidia ? 4 : 2;
  if (thin_m) return {{{16, 128, 2 * k, 16, 32, stages, 1}, 0.1}};
  if (thin_n) return {{{128, 16, 2 * k, 32, 16, stages, 1}, 0.1}};
  const GpuMatmulTile small = {64, 64, k, 32, 32, stages, 2};
  // AMD: one slice in shared memory, so that it holds several blocks.
  GpuMatmulTile large = {128, 128, k, 64, 64, 1, 2};
  if (nvidia) large = wide ? GpuMatmulTile{128, 128, k, 64, 32, 3, 1} : GpuMatmulTile{128, 128, k, 64, 64, 3, 2};
  return {{large, 1.0}, {small, 0.55}};
}

}  // namespace

GpuMatmulPlan choose_gpu_matmul(const GpuArchitecture& architecture, int operand_bytes, int64_t batch, int64_t m,
                                int64_t n, int64_t k) {
  CAUSEWAY_CHECK(operand_bytes == 2 || operand_bytes == 4, "operands of {} bytes", operand_bytes);
  const auto thin = [](int64_t size) { return size != kUnknownSize && size <= kThin; };
  const bool all_known = batch != kUnknownSize && m != kUnknownSize && n != kUnknownSize && k != kUnknownSize;
  const auto known = [](int64_t size) { return size == kUnknownSize ? kLarge : size; };
  const int64_t units = architecture.parallel_units;
  // What one unit does in a microsecond: products of the multipliers; and bytes of memory of all units.
  const bool nvidia = architecture.vendor == GpuArchitecture::Vendor::kNvidia;
  const double products = operand_bytes == 2 ? (nvidia ? 1.4e6 : 2.0e6) : (nvidia ? 0.09e6 : 0.25e6);
  constexpr double kMemoryBytes = 2e6, kLaunch = 3;
  GpuMatmulPlan best;
  double best_time = 0;
  for (const Candidate& candidate : candidates(architecture, operand_bytes, thin(m), !thin(m) && thin(n))) {
    const GpuMatmulTile& tile = candidate.tile;
    const int64_t tiles =
        (batch == kUnknownSize ? 1 : batch) * matmul_ceil_div(known(m), tile.m) * matmul_ceil_div(known(n), tile.n);
    for (int splits = 1; splits <= kMostSplits; ++splits) {
      const int64_t split_k = gpu_matmul_split_k(known(k), splits, tile.k);
      if (splits > 1 && (!all_known || split_k < kLeastSplitK)) break;
      if (splits > 1 && split_k * (splits - 1) >= k) continue;  // a part would be empty
      const double rounds = static_cast<double>(matmul_ceil_div(tiles * splits, units));
      double time = rounds * tile.m * tile.n * static_cast<double>(split_k) / (products * candidate.efficiency);
      if (splits > 1) time += kLaunch + 8.0 * splits * static_cast<double>(batch * m * n) / kMemoryBytes;
      if (best_time == 0 || time < best_time) {
        best_time = time;
        best = {tile, splits};
      }
    }
  }
  return best;
}

std::string gpu_matmul_tile_text(const GpuMatmulTile& tile) {
  return fmt::format("static constexpr GpuMatmulTile kTile = {{{}, {}, {}, {}, {}, {}, {}}};", tile.m, tile.n, tile.k,
                     tile.wave_m, tile.wave_n, tile.stages, tile.blocks_per_unit);
}

}  // namespace causeway
