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
// A last round that leaves most multiprocessors idle takes less than a full one, whose clock is lower: splitting it has
// to promise this much.
constexpr double kLeastGainOfSplitEnd = 0.96;

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

// Tiles of whole rounds are computed whole, the others in parts that fill the last round.
void split_last_round(const Sizes& sizes, HopperMatmulSums sums, int64_t units, HopperMatmulPlan& best,
                      double& best_time) {
  const double time_to_beat = best_time * kLeastGainOfSplitEnd;
  for (const HopperMatmulSchedule& candidate : hopper_matmul_schedules()) {
    const HopperMatmulTile& tile = candidate.tile;
    if (tile.in_turns || !candidate.holds(sums)) continue;
    const int64_t tiles = sizes.batch * matmul_ceil_div(sizes.m, tile.m) * matmul_ceil_div(sizes.n, tile.n);
    const int64_t whole = tiles / units * units, split_tiles = tiles - whole;
    if (whole == 0 || split_tiles == 0) continue;
    const double slice = static_cast<double>(int64_t{tile.m} * tile.n * kHopperMatmulDepth) /
                         (kHopperMatmulProducts * candidate.efficiency);
    const int64_t slices = matmul_ceil_div(sizes.k, int64_t{kHopperMatmulDepth});
    for (int splits = 2; splits <= kMostSplits; ++splits) {
      const int64_t each = matmul_ceil_div(slices, int64_t{splits});
      if (each * kHopperMatmulDepth < kLeastSplitK) break;
      if (each * (splits - 1) >= slices) continue;  // a part would be empty
      const int64_t rounds = whole / units * slices + matmul_ceil_div(split_tiles * splits, units) * each;
      const double time = static_cast<double>(rounds) * slice + kLaunch +
                          8.0 * static_cast<double>(splits * split_tiles * tile.m * tile.n) / kHopperMatmulCombineBytes;
      if (time >= std::min(best_time, time_to_beat)) continue;
      best_time = time;
      best = {tile, splits, whole};
    }
  }
}

}  // namespace

GpuMatmulPlan choose_gpu_matmul(const GpuArchitecture& architecture, MatmulOperand operand, int64_t batch, int64_t m,
                                int64_t n, int64_t k) {
  const auto thin = [](int64_t size) { return size != kUnknownSize && size <= kThin; };
  const MatmulSides sides = thin(m) ? MatmulSides::kThinM : thin(n) ? MatmulSides::kThinN : MatmulSides::kLarge;
  const double products = matmul_products(architecture, operand), bytes = matmul_combine_bytes(architecture);
  const Sizes sizes(batch, m, n, k);
  GpuMatmulPlan best;
  double best_time = 0;
  for (const MatmulSchedule& candidate : matmul_schedules()) {
    if (candidate.operand != operand || candidate.sides != sides || !serves(candidate.processors, architecture))
      continue;
    const GpuMatmulTile& tile = candidate.tile;
    for_each_split(sizes, tile.m, tile.n, tile.k, architecture.parallel_units, {products * candidate.efficiency, bytes},
                   [&](int splits, double time) {
                     if (best_time != 0 && time >= best_time) return;
                     best_time = time;
                     best = {tile, splits};
                   });
  }
  return best;
}

ThinMatmulTile choose_thin_matmul(const GpuArchitecture& architecture, int64_t batch, int64_t m, int64_t n, int64_t k) {
  // Every block reads all rows: few of them hardly count beside as many columns, many do. But most multiprocessors are
  // to have a block.
  constexpr int64_t kFewRows = 2;
  constexpr double kLeastShare = 0.7;
  // What one block of a multiprocessor's four has on its way. A cluster costs more than it gains where that is all.
  constexpr int64_t kLongestAlone = 2048;
  constexpr int kMostParts = 8, kBlocksPerUnit = 3;
  const Sizes sizes(batch, 1, n, 1);
  const int units = architecture.parallel_units;
  const auto blocks = [&](int columns) { return sizes.batch * matmul_ceil_div(sizes.n, columns); };
  ThinMatmulTile tile;
  tile.columns = m <= kFewRows || static_cast<double>(blocks(32)) < kLeastShare * units ? 16 : 32;
  const auto may_part = [&] {
    return architecture.has_warpgroup_matrix && 2 * tile.parts <= kMostParts &&
           k % (2 * tile.parts * kThinMatmulSlice) == 0 && k / tile.parts > kLongestAlone &&
           blocks(tile.columns) * tile.parts < int64_t{kBlocksPerUnit} * units;
  };
  while (may_part()) tile.parts *= 2;
  // More waves where a multiprocessor has a single block.
  if (blocks(tile.columns) * tile.parts <= units) tile.waves = 16;
  return tile;
}

HopperMatmulPlan choose_hopper_matmul(const GpuArchitecture& architecture, HopperMatmulSums sums,
                                      HopperMatmulStores stores, int64_t batch, int64_t m, int64_t n, int64_t k) {
  const Sizes sizes(batch, m, n, k);
  const int units = architecture.parallel_units;
  HopperMatmulPlan best;
  double best_time = 0;
  for (const HopperMatmulSchedule& candidate : hopper_matmul_schedules()) {
    if (candidate.tile.in_turns || !candidate.holds(sums)) continue;
    for_each_split(sizes, candidate.tile.m, candidate.tile.n, kHopperMatmulDepth, units,
                   {kHopperMatmulProducts * candidate.efficiency, kHopperMatmulCombineBytes},
                   [&](int splits, double time) {
                     if (best_time != 0 && time >= best_time) return;
                     best_time = time;
                     best = {candidate.tile, splits, 0};
                   });
  }
  const bool may_take_turns = sums == HopperMatmulSums::kOne && sizes.k <= kHopperMatmulLongestInTurns;
  if (sizes.all_known && !may_take_turns) split_last_round(sizes, sums, units, best, best_time);
  // Where warpgroups share a tile nothing is multiplied while it is stored; where they take turns, only a tile that is
  // multiplied faster than the other's is stored waits for it. Long sums hide their stores anyway, and two sums of
  // 8-bit products leave no registers.
  if (!may_take_turns || !sizes.all_known || best.splits > 1) return best;
  const auto k_of_tile = static_cast<double>(sizes.k);
  const double stored_as_k = stores == HopperMatmulStores::kSent ? kHopperMatmulSentAsK : kHopperMatmulStoredAsK;
  best_time *= (k_of_tile + stored_as_k) / k_of_tile;
  for (const HopperMatmulSchedule& candidate : hopper_matmul_schedules()) {
    if (!candidate.tile.in_turns || candidate.stores != stores) continue;
    const HopperMatmulTile& tile = candidate.tile;
    const int64_t tiles = sizes.batch * matmul_ceil_div(sizes.m, tile.m) * matmul_ceil_div(sizes.n, tile.n);
    // A block that computes a single tile has nothing to do beside it.
    if (tiles < 2 * units) continue;
    const double time = static_cast<double>(matmul_ceil_div(tiles, static_cast<int64_t>(units))) * tile.m * tile.n *
                        (std::max(k_of_tile, candidate.least_k) + candidate.stored_as_k) /
                        (kHopperMatmulProducts * candidate.efficiency);
    if (time >= best_time) continue;
    best_time = time;
    best.tile = tile;
  }
  return best;
}

std::string matmul_tile_text(const GpuMatmulTile& tile) {
  return fmt::format("static constexpr GpuMatmulTile kTile = {{{}, {}, {}, {}, {}, {}, {}}};", tile.m, tile.n, tile.k,
                     tile.wave_m, tile.wave_n, tile.stages, tile.blocks_per_unit);
}

std::string matmul_tile_text(const HopperMatmulTile& tile) {
  return fmt::format("static constexpr HopperMatmulTile kTile = {{{}, {}, {}, {}, {}}};", tile.m, tile.n, tile.stages,
                     tile.cluster, tile.in_turns);
}

}  // namespace causeway::codegen
