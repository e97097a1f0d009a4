#include "causeway/codegen/gpu/matmul_geometry.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "causeway/base/error.h"

namespace causeway::codegen {
namespace {

constexpr int64_t kLarge = 4096;  // what an unknown size is taken for
constexpr int64_t kThin = 16;     // sides up to this have tiles of their own
constexpr int kMostSplits = 32;
constexpr int64_t kLeastSplitK = 256;  // less is not worth a part of its own
constexpr double kLaunch = 3;          // microseconds

struct Sizes {
  int64_t batch, m, n, k;
  bool all_known;

  Sizes(int64_t batch, int64_t m, int64_t n, int64_t k)
      : batch(batch == kUnknownSize ? 1 : batch),
        m(m == kUnknownSize ? kLarge : m),
        n(n == kUnknownSize ? kLarge : n),
        k(k == kUnknownSize ? kLarge : k),
        all_known(batch != kUnknownSize && m != kUnknownSize && n != kUnknownSize && k != kUnknownSize) {}
};

// Part of the time model: what one unit multiplies in a microsecond, and bytes of memory of all units.
struct Rates {
  double products;
  double memory_bytes;
};

// Calls `offer(splits, microseconds)` for each way to cut k.
template <class Offer>
void for_each_split(const Sizes& sizes, int tile_m, int tile_n, int tile_k, int64_t units, const Rates& rates,
                    Offer&& offer) {
  const int64_t tiles = sizes.batch * matmul_ceil_div(sizes.m, tile_m) * matmul_ceil_div(sizes.n, tile_n);
  for (int splits = 1; splits <= kMostSplits; ++splits) {
    const int64_t split_k = gpu_matmul_split_k(sizes.k, splits, tile_k);
    if (splits > 1 && (!sizes.all_known || split_k < kLeastSplitK)) return;
    if (splits > 1 && split_k * (splits - 1) >= sizes.k) continue;  // a part would be empty
    const auto rounds = static_cast<double>(matmul_ceil_div(tiles * splits, units));
    double time = rounds * tile_m * tile_n * static_cast<double>(split_k) / rates.products;
    if (splits > 1)
      time += kLaunch + 8.0 * splits * static_cast<double>(sizes.batch * sizes.m * sizes.n) / rates.memory_bytes;
    offer(splits, time);
  }
}

struct Candidate {
  GpuMatmulTile tile;
  double efficiency = 1;  // part of the multipliers' speed that the tile reaches
};

std::vector<Candidate> candidates(const GpuArchitecture& architecture, MatmulOperand operand, bool thin_m,
                                  bool thin_n) {
  const bool nvidia = architecture.vendor == GpuArchitecture::Vendor::kNvidia;
  const bool wide = operand_bytes(operand) == 4;
  const int k = wide ? 16 : 32;
  const int stages = nvidia ? 4 : 2;
  if (thin_m) return {{{16, 128, 2 * k, 16, 32, stages, 1}, 0.1}};
  if (thin_n) return {{{128, 16, 2 * k, 32, 16, stages, 1}, 0.1}};
  const GpuMatmulTile small = {64, 64, k, 32, 32, stages, 2};
  // AMD: one slice in shared memory, so that it holds several blocks.
  GpuMatmulTile large = {128, 128, k, 64, 64, 1, 2};
  if (nvidia) {
    switch (operand) {
      case MatmulOperand::kHalf:
        large = {128, 128, k, 64, 64, 3, 2};
        break;
      case MatmulOperand::kTf32:
        large = {128, 128, k, 64, 32, 4, 1};
        break;
      case MatmulOperand::kFloat:
        large = {128, 128, k, 64, 32, 3, 1};
        break;
    }
  }
  return {{large, 1.0}, {small, 0.55}};
}

}  // namespace

GpuMatmulPlan choose_gpu_matmul(const GpuArchitecture& architecture, MatmulOperand operand, int64_t batch, int64_t m,
                                int64_t n, int64_t k) {
  const auto thin = [](int64_t size) { return size != kUnknownSize && size <= kThin; };
  const bool nvidia = architecture.vendor == GpuArchitecture::Vendor::kNvidia;
  double products = nvidia ? 1.4e6 : 2.0e6;
  if (operand == MatmulOperand::kTf32) products *= 0.5;
  if (operand == MatmulOperand::kFloat) products = nvidia ? 0.09e6 : 0.25e6;
  const Sizes sizes(batch, m, n, k);
  GpuMatmulPlan best;
  double best_time = 0;
  for (const Candidate& candidate : candidates(architecture, operand, thin(m), !thin(m) && thin(n))) {
    const GpuMatmulTile& tile = candidate.tile;
    for_each_split(sizes, tile.m, tile.n, tile.k, architecture.parallel_units, {products * candidate.efficiency, 2e6},
                   [&](int splits, double time) {
                     if (best_time != 0 && time >= best_time) return;
                     best_time = time;
                     best = {tile, splits};
                   });
  }
  return best;
}

HopperMatmulPlan choose_hopper_matmul(const GpuArchitecture& architecture, bool f8_pairs, int64_t batch, int64_t m,
                                      int64_t n, int64_t k) {
  struct HopperCandidate {
    int m, n, stages;
    double efficiency;
  };
  // As many stages as fit.
  constexpr HopperCandidate kCandidates[] = {{128, 256, 4, 1.0}, {128, 192, 4, 0.95}, {128, 128, 6, 0.85},
                                             {128, 64, 8, 0.55}, {64, 128, 8, 0.55},  {64, 64, 8, 0.35}};
  const Sizes sizes(batch, m, n, k);
  const int units = architecture.parallel_units;
  HopperMatmulPlan best;
  double best_time = 0;
  for (const HopperCandidate& candidate : kCandidates) {
    if (f8_pairs && candidate.n > 192) continue;  // two sums take the registers of wider tiles
    for_each_split(sizes, candidate.m, candidate.n, kHopperMatmulDepth, units, {2.8e6 * candidate.efficiency, 4e6},
                   [&](int splits, double time) {
                     if (best_time != 0 && time >= best_time) return;
                     best_time = time;
                     best = {{candidate.m, candidate.n, candidate.stages, 1, units}, splits};
                   });
  }
  // Where warpgroups share a tile nothing is multiplied while it is stored; where they take turns, only a tile that is
  // multiplied faster than the other's is stored waits for it. Fitted to what an H200 did with twelve products of bf16
  // (docs/performance.md). Long sums hide their stores anyway, and two sums of 8-bit products leave no registers.
  constexpr int64_t kLongestInTurns = 8192;
  constexpr double kStoredAsK = 180;  // what storing a shared tile takes, in terms of k
  struct TurnsCandidate {
    int m, n, stages;
    double efficiency;
    double least_k;  // below which a tile takes no less time
  };
  constexpr TurnsCandidate kTurns[] = {{64, 256, 4, 0.97, 815}, {128, 128, 6, 0.955, 930}};
  if (f8_pairs || !sizes.all_known || best.splits > 1 || sizes.k > kLongestInTurns) return best;
  const auto k_of_tile = static_cast<double>(sizes.k);
  best_time *= (k_of_tile + kStoredAsK) / k_of_tile;
  for (const TurnsCandidate& candidate : kTurns) {
    const int64_t tiles = sizes.batch * matmul_ceil_div(sizes.m, candidate.m) * matmul_ceil_div(sizes.n, candidate.n);
    // A block that computes a single tile has nothing to do beside it.
    if (tiles < 2 * units) continue;
    const double time = static_cast<double>(matmul_ceil_div(tiles, static_cast<int64_t>(units))) * candidate.m *
                        candidate.n * std::max(k_of_tile, candidate.least_k) / (2.8e6 * candidate.efficiency);
    if (time >= best_time) continue;
    best_time = time;
    best.tile = {candidate.m, candidate.n, candidate.stages, 1, units, true};
  }
  // Clusters of two blocks that share what they load of B were slower at every shape measured (docs/performance.md).
  return best;
}

std::string matmul_tile_text(const GpuMatmulTile& tile) {
  return fmt::format("static constexpr GpuMatmulTile kTile = {{{}, {}, {}, {}, {}, {}, {}}};", tile.m, tile.n, tile.k,
                     tile.wave_m, tile.wave_n, tile.stages, tile.blocks_per_unit);
}

std::string matmul_tile_text(const HopperMatmulTile& tile) {
  return fmt::format("static constexpr HopperMatmulTile kTile = {{{}, {}, {}, {}, {}, {}}};", tile.m, tile.n,
                     tile.stages, tile.cluster, tile.blocks, tile.in_turns);
}

}  // namespace causeway::codegen
