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

// Part of the time model: what one unit multiplies in a microsecond, and bytes of memory of all units; what storing a
// tile's results costs, in terms of k; and the k below which a tile takes no less time.
struct Rates {
  double products;
  double memory_bytes;
  double stored_as_k = 0;
  double least_k = 0;
};

// Calls `offer(splits, microseconds)` for each way to cut k.
template <class Offer>
void for_each_split(const Sizes& sizes, int tile_m, int tile_n, int slice_k, int64_t units, const Rates& rates,
                    Offer&& offer) {
  const int64_t tiles = sizes.batch * matmul_ceil_div(sizes.m, tile_m) * matmul_ceil_div(sizes.n, tile_n);
  for (int splits = 1; splits <= kMostSplits; ++splits) {
    const int64_t split_k = gpu_matmul_split_k(sizes.k, splits, slice_k);
    if (splits > 1 && (!sizes.all_known || split_k < kLeastSplitK)) return;
    if (splits > 1 && split_k * (splits - 1) >= sizes.k) continue;  // a part would be empty
    const auto rounds = static_cast<double>(matmul_ceil_div(tiles * splits, units));
    const double tile_k = std::max(static_cast<double>(split_k) + rates.stored_as_k, rates.least_k);
    double time = rounds * tile_m * tile_n * tile_k / rates.products;
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
    bool in_turns;
    double efficiency, stored_as_k, least_k;
  };
  // As many stages as fit. Where warpgroups share a tile nothing is multiplied while it is stored; where they take
  // turns, only a tile that is multiplied faster than the other's is stored waits for it. Fitted to what an H200 did
  // with twelve products of bf16 (docs/performance.md); the smaller tiles' figures are older.
  constexpr double kShared = 180;
  constexpr HopperCandidate kCandidates[] = {
      {128, 256, 4, false, 1.0, kShared, 0},  {64, 256, 4, true, 0.97, 20, 815},
      {128, 128, 6, true, 0.955, 20, 930},     {128, 192, 4, false, 0.95, kShared, 0},
      {128, 128, 6, false, 0.85, kShared, 0}, {128, 64, 8, false, 0.55, kShared, 0},
      {64, 128, 8, false, 0.55, kShared, 0},  {64, 64, 8, false, 0.35, kShared, 0}};
  const Sizes sizes(batch, m, n, k);
  const int units = architecture.parallel_units;
  HopperMatmulPlan best;
  double best_time = 0;
  for (const HopperCandidate& candidate : kCandidates) {
    // Two sums of 8-bit products take the registers of wider tiles, and of taking turns.
    if (f8_pairs && (candidate.n > 192 || candidate.in_turns)) continue;
    const Rates rates = {2.8e6 * candidate.efficiency, 4e6, candidate.stored_as_k, candidate.least_k};
    for_each_split(sizes, candidate.m, candidate.n, kHopperMatmulDepth, units, rates, [&](int splits, double time) {
      if (best_time != 0 && time >= best_time) return;
      best_time = time;
      best = {{candidate.m, candidate.n, candidate.stages, 1, units, candidate.in_turns}, splits};
    });
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

}  // namespace causeway
