#include "causeway/codegen/gpu/gemm_geometry.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/device/gpu_architecture.h"

namespace causeway::codegen {
namespace {

constexpr int64_t kTakenForUnknown = 4096;  // what an unknown size is taken for
constexpr int kMostSplits = 32;
constexpr int64_t kLeastSplitK = 256;  // less is not worth a part of its own
constexpr double kLaunch = 3;          // microseconds

struct Sizes {
  int64_t batch, m, n, k;
  bool all_known;

  Sizes(int64_t batch, int64_t m, int64_t n, int64_t k)
      : batch(batch == kUnknownSize ? 1 : batch),
        m(m == kUnknownSize ? kTakenForUnknown : m),
        n(n == kUnknownSize ? kTakenForUnknown : n),
        k(k == kUnknownSize ? kTakenForUnknown : k),
        all_known(batch != kUnknownSize && m != kUnknownSize && n != kUnknownSize && k != kUnknownSize) {}
};

// Part of the time model: what one unit multiplies in a microsecond, and bytes of memory of all units.
struct Rates {
  double multiply_adds;
  double memory_bytes;
};

// Calls `offer(splits, microseconds)` for each way to cut k.
template <class Offer>
void for_each_split(const Sizes& sizes, int tile_m, int tile_n, int tile_k, int64_t units, const Rates& rates,
                    Offer&& offer) {
  const int64_t tiles = sizes.batch * gemm_ceil_div(sizes.m, tile_m) * gemm_ceil_div(sizes.n, tile_n);
  for (int splits = 1; splits <= kMostSplits; ++splits) {
    const int64_t split_k = gpu_gemm_split_k(sizes.k, splits, tile_k);
    if (splits > 1 && (!sizes.all_known || split_k < kLeastSplitK)) return;
    if (splits > 1 && split_k * (splits - 1) >= sizes.k) continue;  // a part would be empty
    const auto rounds = static_cast<double>(gemm_ceil_div(tiles * splits, units));
    double time = rounds * tile_m * tile_n * static_cast<double>(split_k) / rates.multiply_adds;
    if (splits > 1)
      time += kLaunch + 8.0 * splits * static_cast<double>(sizes.batch * sizes.m * sizes.n) / rates.memory_bytes;
    offer(splits, time);
  }
}

// A GEMM of which every block computes one tile, or one of `parts` of a tile's k: so many tiles above one another
// and side by side.
struct HopperGemmGrid {
  int64_t batch, rows, columns, parts;
};

// Lines of both operands that `groups` of multiprocessors ask for at each slice, each line once a group. Blocks that
// have no cluster run group after group.
int64_t lines_of_groups(const HopperGemmTile& tile, const HopperGemmGrid& grid, int64_t groups) {
  const int64_t tiles = grid.rows * grid.columns, matrices = grid.batch * grid.parts, work = matrices * tiles;
  std::vector<int64_t> row_group(static_cast<size_t>(matrices * grid.rows), -1);  // the last one that asked for a row
  std::vector<int64_t> column_group(static_cast<size_t>(matrices * grid.columns), -1);
  int64_t lines = 0;
  for (int64_t i = 0; i < work; ++i) {
    const int64_t group = i * groups / work, matrix = i / tiles;
    const HopperGemmPlace place = hopper_gemm_place(static_cast<int>(i % tiles), static_cast<int>(grid.rows),
                                                    static_cast<int>(grid.columns), tile.rows_together);
    if (std::exchange(row_group[static_cast<size_t>(matrix * grid.rows + place.row)], group) != group) lines += tile.m;
    if (std::exchange(column_group[static_cast<size_t>(matrix * grid.columns + place.column)], group) != group)
      lines += tile.n;
  }
  return lines;
}

// Sets rows_together for the fewest lines of groups and halves together, and returns those of groups.
int64_t order_tiles(HopperGemmTile& tile, const HopperGemmGrid& grid) {
  HopperGemmTile best = tile;
  int64_t lines = 0;
  double fewest = 0;
  for (tile.rows_together = 1; tile.rows_together <= std::min<int64_t>(grid.rows, kHopperGemmMostTogether);
       ++tile.rows_together) {
    const int64_t of_groups = lines_of_groups(tile, grid, kHopperGemmUnitGroups);
    const double together =
        static_cast<double>(of_groups) + kHopperGemmLineOfHalf * static_cast<double>(lines_of_groups(tile, grid, 2));
    if (fewest != 0 && together >= fewest) continue;
    fewest = together;
    lines = of_groups;
    best = tile;
  }
  tile = best;
  return lines;
}

// Whether tiles that have room for four stages and results are better off with a fifth and less room for results: few
// rounds of them, of one result of two bytes that is sent. `tiles`: how many there are.
bool fifth_stage_pays(HopperGemmTile tile, HopperGemmAccumulators sums, HopperGemmStores stores, GemmOrder order,
                      const Sizes& sizes, int64_t tiles, int64_t units) {
  const bool sends_one = stores == HopperGemmStores::kByTma && order.may_swap && order.one_result;
  if (!sizes.all_known || sums != HopperGemmAccumulators::kOne || !sends_one || tile.results_in_stages ||
      tiles > kHopperGemmFewRounds * units || sizes.k > kHopperGemmLongestFewRounds ||
      hopper_gemm_best_stages(tile) != 4)
    return false;
  tile.stages = 5;
  return hopper_gemm_boxes(tile) >= kHopperGemmBoxesOfPiece;
}

// What a GEMM takes by HopperGemmTimes, with tiles of one kind.
class HopperGemmModel {
 public:
  // `order`: of the GEMM that is computed, `swapped` or not.
  HopperGemmModel(const HopperGemmFigures& figures, const Sizes& sizes, const HopperGemmSchedule& schedule,
                  HopperGemmAccumulators sums, HopperGemmStores stores, GemmOrder order, bool swapped, int64_t units)
      : figures_(figures),
        schedule_(schedule),
        order_(order),
        times_(schedule.ping_pong ? figures.ping_pong : figures.cooperative),
        measured_(schedule.measured),
        units_(units),
        parts_of_lines_(sizes.k % kHopperGemmDepth != 0 && sizes.k >= kHopperGemmLongLines
                            ? 1 + (figures.one_tile.parts_of_lines - 1) * (order.a_along_k + order.b_along_k) / 2
                            : 1) {
    const auto m = static_cast<double>(schedule.m), n = static_cast<double>(schedule.n);
    const int64_t tiles_m = gemm_ceil_div(sizes.m, int64_t{schedule.m});
    const int64_t tiles_n = gemm_ceil_div(sizes.n, int64_t{schedule.n});
    tiles_ = sizes.batch * tiles_m * tiles_n;
    const double k = std::max(static_cast<double>(sizes.k), schedule.least_k);
    slices_ = std::ceil(k / kHopperGemmDepth);
    const double there = static_cast<double>(sizes.m) / (static_cast<double>(tiles_m) * m) *
                         static_cast<double>(sizes.n) / (static_cast<double>(tiles_n) * n);
    const double multiply_adds = m * n * (schedule.m == 64 ? times_.element_of_64 : times_.element);
    const double lines =
        (m * (order.a_along_k ? 1 : times_.a_side_by_side) +
         lines_of_b(schedule, order, times_.crossing) * (order.b_along_k ? 1 : times_.b_side_by_side)) *
        times_.line;
    // What of a tile is not there saves energy, and time where that is what bounds GEMMs: not those of 8 bits.
    const double padding = sums == HopperGemmAccumulators::kOne ? times_.padding : 0;
    slice_ = longer(multiply_adds, lines) * parts_of_lines_of_rounds(sizes) * (1 - padding * (1 - there)) + times_.wait;
    if (!schedule.ping_pong && stores != HopperGemmStores::kByTma)
      other_store_ = (stores == HopperGemmStores::kByTmaAdded ? kHopperGemmAddedStore : kHopperGemmOtherStore) * m * n;
    const bool narrow = stores == HopperGemmStores::kOther && schedule.n % 32 != 0;
    store_ = (narrow ? times_.narrow_store : times_.store) + schedule.store + other_store_;
    if (!order.a_along_k && schedule.m == 64 && !schedule.ping_pong) measured_ *= kHopperGemmFewRowsSideBySide;
    if (!order.b_along_k && schedule.m == 192 && schedule.n % 64 != 0) measured_ *= kHopperGemmThreeReadCrossing;
    tile_bytes_ = m * n * static_cast<double>(sizeof(float));
    if (sums == HopperGemmAccumulators::kOne) {
      const HopperGemmPower& power = figures.power;
      const double each = power.multiply_add +
                          power.line * (m + lines_of_b(schedule, order, power.crossing)) / (m * n) +
                          power.operand * (64 + n) / (64 * n);
      energy_ = static_cast<double>(tiles_) * m * n * static_cast<double>(sizes.k) * 1e-9 * each *
                (schedule.ping_pong ? 1 + power.ping_pong : 1);
      if (!schedule.ping_pong) energy_ += power.store * 1e-6 * static_cast<double>(sizes.batch * sizes.m * sizes.n);
      energy_of_part_ = power.part * 1e-6 * m * n;
    }
  }

  int64_t tiles() const { return tiles_; }
  int64_t slices() const { return static_cast<int64_t>(slices_); }
  double time() const {
    const double rounds = this->rounds(tiles_);
    return beside_one_tile_each(
        longer(measured_ * (times_.begin + (part_of_rounds(tiles_) + times_.first_slices / rounds) * slices_ * slice_ +
                            rounds * store_),
               energy_));
  }
  // With the tiles from `whole` on, a multiple of the multiprocessors, in parts of `each` slices.
  double time_of_parts(int64_t whole, int splits, int64_t each) const {
    const auto cut = static_cast<double>(tiles_ - whole);
    const int64_t parts = (tiles_ - whole) * splits;
    return beside_one_tile_each(longer(
        measured_ *
                (times_.begin + (rounds(whole) * slices_ + part_of_rounds(parts) * static_cast<double>(each)) * slice_ +
                 (rounds(whole) + rounds(parts)) * store_) +
            kHopperGemmCombineLaunch + 2 * cut * splits * tile_bytes_ / kHopperGemmCombineBytes,
        energy_ + energy_of_part_ * static_cast<double>(parts)));
  }
  // With a tile, or one of so many parts of a tile's k, for each of `blocks`, no more than multiprocessors. Those of a
  // cluster ask for the lines that they share once; groups of multiprocessors for `group_lines`.
  double time_of_one_tile_each(const HopperGemmTile& tile, int64_t blocks, int64_t group_lines, int splits,
                               int64_t each) const {
    const HopperGemmOneTileTimes& times = figures_.one_tile;
    const auto units = static_cast<double>(units_);
    const double part = static_cast<double>(blocks) / units;
    const double multiply_adds = tile.m * tile.n * times.element * (1 + times.clock * part);
    const double lines_a = tile.m * times.a_line * (order_.a_along_k ? 1 : times.a_side_by_side);
    const double lines_b =
        lines_of_b(schedule_, order_, times.crossing) * (order_.b_along_k ? 1 : times.b_side_by_side);
    const double asked_for = lines_a / tile.cluster_n + lines_b / tile.cluster_m;
    const double from_cache = times.all_lines *
                              (asked_for * part + times.line_of_group * static_cast<double>(group_lines) / units) *
                              parts_of_lines_;
    const double slice =
        longer(longer(multiply_adds, times.way / tile.stages), longer(times.line * (lines_a + lines_b), from_cache));
    const bool in_clusters = hopper_gemm_cluster(tile) > 1;
    double time = times.begin + std::max(0.0, tile.m * tile.n - times.few_results) * times.result +
                  static_cast<double>(each) * slice + other_store_ + (in_clusters ? times.cluster : 0);
    if (splits > 1) time += times.combine_launch + 2 * static_cast<double>(blocks) * tile_bytes_ / times.combine_bytes;
    if (!in_clusters && blocks > times.few_blocks)
      time *= 1 + times.out_of_step * static_cast<double>(blocks - times.few_blocks) /
                      static_cast<double>(units_ - times.few_blocks);
    return longer(time, energy_ + (splits > 1 ? energy_of_part_ * static_cast<double>(blocks) : 0));
  }

 private:
  // The longer of what goes on at the same time, and a little more where both take as long.
  static double longer(double one, double other) {
    constexpr double kNorm = 8;
    return std::pow(std::pow(one, kNorm) + std::pow(other, kNorm), 1 / kNorm);
  }
  // Where neither operand's lines begin at a multiple of 128 bytes, what a slice takes as a multiple.
  double parts_of_lines_of_rounds(const Sizes& sizes) const {
    const HopperGemmPartsOfLines& parts = figures_.parts_of_lines;
    if (sizes.k % kHopperGemmDepth == 0 || !order_.a_along_k || !order_.b_along_k) return 1;
    const double lines = static_cast<double>(schedule_.m + schedule_.n) / (schedule_.m * schedule_.n);
    return 1 + (schedule_.ping_pong ? parts.most_ping_pong : parts.most) *
                   std::clamp((lines - parts.few) / (parts.many - parts.few), 0.0, 1.0);
  }
  // What HopperGemmTimes say, or HopperGemmPower does, as it compares with HopperGemmOneTileTimes: short runs,
  // which both are compared by, meet the power limit late.
  double beside_one_tile_each(double time) const {
    const HopperGemmRounds& rounds = figures_.rounds;
    const double part = order_.a_along_k || order_.b_along_k ? rounds.part : rounds.part_side_by_side;
    return rounds.begin + part * time + rounds.long_part * std::max(0.0, time - rounds.long_time);
  }
  // Side by side they come as whole boxes of 64, which begin where a tile does: of every 64 columns that are 128 bytes,
  // at the first one alone where tiles have a multiple of 64.
  static double lines_of_b(const HopperGemmSchedule& schedule, GemmOrder order, double crossing) {
    if (order.b_along_k) return schedule.n;
    const double beginnings = 64.0 / std::gcd(schedule.n, 64);
    return 64.0 * hopper_gemm_pieces({schedule.m, schedule.n}) * (1 + crossing * (1 - 1 / beginnings));
  }
  double rounds(int64_t tiles) const { return static_cast<double>(gemm_ceil_div(tiles, units_)); }
  // The last one counts for less where it is not full.
  double part_of_rounds(int64_t tiles) const {
    const double last = static_cast<double>(tiles) / static_cast<double>(units_) - (rounds(tiles) - 1);
    return rounds(tiles) - (1 - times_.last_round) * (1 - last);
  }

  const HopperGemmFigures& figures_;
  const HopperGemmSchedule& schedule_;
  GemmOrder order_;
  const HopperGemmTimes& times_;
  double measured_;
  int64_t units_, tiles_;
  double parts_of_lines_;  // as a multiple: what long lines take that do not all begin at a multiple of 128 bytes
  double slices_, slice_, store_, tile_bytes_;
  double other_store_ = 0;
  double energy_ = 0, energy_of_part_ = 0;  // in microseconds at the power limit; 0 where nothing was measured
};

HopperGemmGrid hopper_gemm_grid(const Sizes& sizes, const HopperGemmTile& tile, int splits) {
  return {sizes.batch, gemm_ceil_div(sizes.m, int64_t{tile.m}), gemm_ceil_div(sizes.n, int64_t{tile.n}), splits};
}

// The plans of those that are considered.
class HopperGemmCandidates {
 public:
  HopperGemmCandidates(const HopperGemmFigures& figures, const GpuArchitecture& architecture,
                       HopperGemmAccumulators sums, HopperGemmStores stores)
      : figures_(figures),
        architecture_(architecture),
        units_(architecture.parallel_units),
        sums_(sums),
        stores_(stores) {}

  // A GEMM, or that of the transposes, which has these sizes and this order then.
  void consider(const Sizes& sizes, GemmOrder order, bool swapped) {
    const bool may_cluster = sizes.all_known && order.a_along_k && order.b_along_k && order.few_batch_dimensions &&
                             sizes.k >= kHopperGemmLeastInClusters && architecture_.blocks_in_clusters_of_eight > 0;
    for (const HopperGemmSchedule& candidate : hopper_gemm_schedules()) {
      if (!candidate.holds(sums_) || (candidate.stores != HopperGemmStores::kAny && candidate.stores != stores_))
        continue;
      // Of more rows for a warpgroup there are too few.
      if (order.a_in_registers && (candidate.ping_pong || candidate.m > 128)) continue;
      const HopperGemmModel model(figures_, sizes, candidate, sums_, stores_, order, swapped, units_);
      HopperGemmTile tile = {candidate.m, candidate.n, 0, 1, candidate.ping_pong, order.b_along_k};
      tile.swapped = swapped;
      const bool may_have_one_each = sums_ == HopperGemmAccumulators::kOne && sizes.all_known && !candidate.ping_pong &&
                                     sizes.k <= kHopperGemmLongestOneTile;
      if (may_have_one_each && may_cluster) consider_clusters(sizes, model, tile);
      if (candidate.ping_pong) {
        // A block that computes a single tile has nothing to do beside it. Long sums hide their stores anyway.
        const int64_t longest =
            stores_ == HopperGemmStores::kByTmaAdded ? kHopperGemmLongestPingPongAdded : kHopperGemmLongestPingPong;
        if (sizes.k <= longest && model.tiles() >= 2 * units_) offer_rounds(sizes, order, model, tile);
        continue;
      }
      if (may_have_one_each && model.tiles() <= units_) {
        offer_one_tile_each(sizes, model, tile, model.tiles(), 1, model.slices());
      } else {
        offer_rounds(sizes, order, model, tile);
      }
      // Parts of k are added up as C lies.
      if (sizes.all_known && !swapped) consider_parts(sizes, model, tile, may_have_one_each);
    }
  }

  std::vector<HopperGemmOffer> take_offers() { return std::move(offers_); }

 private:
  void offer(double microseconds, const HopperGemmPlan& plan) { offers_.push_back({plan, microseconds}); }
  void offer_rounds(const Sizes& sizes, GemmOrder order, const HopperGemmModel& model, const HopperGemmTile& tile) {
    double time = model.time();
    if (tile.swapped) time *= kHopperGemmSwapped;
    if (sums_ == HopperGemmAccumulators::kOne && !tile.ping_pong && tile.m * tile.n <= kHopperGemmSmallTile &&
        model.tiles() <= 2 * units_)
      time *= kHopperGemmTwoOfSmallTiles;
    if (fifth_stage_pays(tile, sums_, stores_, order, sizes, model.tiles(), units_)) time *= kHopperGemmFifthStage;
    offer(time, {tile});
  }

  void offer_one_tile_each(const Sizes& sizes, const HopperGemmModel& model, HopperGemmTile tile, int64_t blocks,
                           int splits, int64_t each) {
    tile.results_in_stages = true;
    tile.stages = hopper_gemm_best_stages(tile);
    // Clusters are dealt out to the groups in turns: hardly any of a group's have the same lines.
    const int64_t lines = hopper_gemm_cluster(tile) > 1 ? blocks * (tile.m / tile.cluster_n + tile.n / tile.cluster_m)
                                                        : order_tiles(tile, hopper_gemm_grid(sizes, tile, splits));
    offer(model.time_of_one_tile_each(tile, blocks, lines, splits, each), {tile, splits});
  }

  void consider_clusters(const Sizes& sizes, const HopperGemmModel& model, HopperGemmTile tile) {
    for (const auto [above, beside] : {std::pair{2, 4}, std::pair{4, 2}}) {
      tile.cluster_m = above;
      tile.cluster_n = beside;
      const int64_t blocks = hopper_gemm_cluster(tile) * sizes.batch *
                             gemm_ceil_div(sizes.m, hopper_gemm_cluster_rows(tile)) *
                             gemm_ceil_div(sizes.n, hopper_gemm_cluster_columns(tile));
      // What a block loads of B is whole lines of a swizzle.
      if (tile.n % (8 * above) == 0 && blocks <= architecture_.blocks_in_clusters_of_eight)
        offer_one_tile_each(sizes, model, tile, blocks, 1, model.slices());
    }
  }

  // All tiles in parts, or those of the last round, which then fill it.
  void consider_parts(const Sizes& sizes, const HopperGemmModel& model, const HopperGemmTile& tile,
                      bool may_have_one_each) {
    const int64_t full = model.tiles() / units_ * units_;
    for (const int64_t whole : {int64_t{0}, full}) {
      if (whole == model.tiles()) continue;
      for (int splits = 2; splits <= kMostSplits; ++splits) {
        const int64_t each = gemm_ceil_div(model.slices(), int64_t{splits});
        if (each * kHopperGemmDepth < kLeastSplitK) break;
        if (each * (splits - 1) >= model.slices()) continue;  // a part would be empty
        if (may_have_one_each && model.tiles() * splits <= units_) {
          offer_one_tile_each(sizes, model, tile, model.tiles() * splits, splits, each);
        } else {
          offer(model.time_of_parts(whole, splits, each), {tile, splits, whole});
        }
      }
    }
  }

  const HopperGemmFigures& figures_;
  const GpuArchitecture& architecture_;
  int64_t units_;
  HopperGemmAccumulators sums_;
  HopperGemmStores stores_;
  std::vector<HopperGemmOffer> offers_;
};

}  // namespace

GpuGemmChoice choose_gpu_gemm(const GpuArchitecture& architecture, GemmOperand operand, int64_t batch, int64_t m,
                              int64_t n, int64_t k) {
  const auto thin = [](int64_t size) { return size != kUnknownSize && size <= kSkinnyGemmRows; };
  const GemmSides sides = thin(m) ? GemmSides::kSkinnyM : thin(n) ? GemmSides::kSkinnyN : GemmSides::kLarge;
  const double multiply_adds = gemm_multiply_adds(architecture, operand), bytes = gemm_combine_bytes(architecture);
  const Sizes sizes(batch, m, n, k);
  GpuGemmChoice best;
  double best_time = 0;
  for (const GemmSchedule& candidate : gemm_schedules()) {
    if (candidate.operand != operand || candidate.sides != sides || candidate.instructions != architecture.wave_matrix)
      continue;
    const GpuGemmTile& tile = candidate.tile;
    for_each_split(sizes, tile.m, tile.n, tile.k, architecture.parallel_units,
                   {multiply_adds * candidate.efficiency, bytes}, [&](int splits, double time) {
                     if (best_time != 0 && time >= best_time) return;
                     best_time = time;
                     best = {tile, splits};
                   });
  }
  return best;
}

SkinnyGemmTile choose_skinny_gemm(const GpuArchitecture& architecture, int64_t batch, int64_t m, int64_t n, int64_t k) {
  // Every block reads all rows: few of them hardly count beside as many columns, many do. But most multiprocessors are
  // to have a block.
  constexpr int64_t kFewRows = 2;
  constexpr double kLeastShare = 0.7;
  // What one block of a multiprocessor's four has on its way. A cluster costs more than it gains where that is all.
  constexpr int64_t kLongestAlone = 2048;
  constexpr int kMostParts = 8, kBlocksPerUnit = 3;
  const Sizes sizes(batch, 1, n, 1);
  const int units = architecture.parallel_units;
  const auto blocks = [&](int columns) { return sizes.batch * gemm_ceil_div(sizes.n, columns); };
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

std::vector<HopperGemmOffer> hopper_gemm_offers(const GpuArchitecture& architecture, HopperGemmAccumulators sums,
                                                HopperGemmStores stores, int64_t batch, int64_t m, int64_t n, int64_t k,
                                                GemmOrder order, const HopperGemmFigures& figures) {
  HopperGemmCandidates candidates(figures, architecture, sums, stores);
  candidates.consider(Sizes(batch, m, n, k), order, false);
  if (order.may_swap) {
    std::swap(order.a_along_k, order.b_along_k);
    candidates.consider(Sizes(batch, n, m, k), order, true);
  }
  return candidates.take_offers();
}

HopperGemmPlan choose_hopper_gemm(const GpuArchitecture& architecture, HopperGemmAccumulators sums,
                                  HopperGemmStores stores, int64_t batch, int64_t m, int64_t n, int64_t k,
                                  GemmOrder order) {
  const auto offers = hopper_gemm_offers(architecture, sums, stores, batch, m, n, k, order);
  HopperGemmPlan plan = std::ranges::min_element(offers, {}, &HopperGemmOffer::microseconds)->plan;
  HopperGemmTile& tile = plan.tile;
  if (tile.swapped) std::swap(m, n);
  const Sizes sizes(batch, m, n, k);
  const HopperGemmGrid grid = hopper_gemm_grid(sizes, tile, plan.splits);
  const int64_t whole = plan.splits > 1 ? plan.whole_tiles : 0;
  const int64_t work = whole + (grid.batch * grid.rows * grid.columns - whole) * plan.splits;
  // Where no block computes a second tile, results may leave from where its slices were.
  if (sums == HopperGemmAccumulators::kOne && sizes.all_known && !tile.ping_pong && !tile.results_in_stages &&
      work <= architecture.parallel_units) {
    tile.results_in_stages = true;
    order_tiles(tile, grid);
  }
  const bool has_fifth_stage =
      plan.splits == 1 && fifth_stage_pays(tile, sums, stores, order, sizes, work, architecture.parallel_units);
  tile.stages = has_fifth_stage ? 5 : hopper_gemm_best_stages(tile);
  return plan;
}

std::string gemm_tile_text(const GpuGemmTile& tile) {
  return fmt::format(
      "static constexpr GpuGemmTile kTile = {{.m = {}, .n = {}, .k = {}, .wave_m = {}, .wave_n = {}, .stages = {}, "
      ".blocks_per_unit = {}, .ping_pong = {}}};",
      tile.m, tile.n, tile.k, tile.wave_m, tile.wave_n, tile.stages, tile.blocks_per_unit, tile.ping_pong);
}

std::string gemm_tile_text(const HopperGemmTile& tile) {
  return fmt::format(
      "static constexpr HopperGemmTile kTile = {{.m = {}, .n = {}, .stages = {}, .cluster_m = {}, .ping_pong = {}, "
      ".b_along_k = {}, .results_in_stages = {}, .cluster_n = {}, .rows_together = {}, .swapped = {}}};",
      tile.m, tile.n, tile.stages, tile.cluster_m, tile.ping_pong, tile.b_along_k, tile.results_in_stages,
      tile.cluster_n, tile.rows_together, tile.swapped);
}

std::string gemm_tile_text(const SkinnyGemmTile& tile) {
  return fmt::format(
      "static constexpr SkinnyGemmTile kTile = {{.columns = {}, .waves = {}, .parts = {}, .row_bytes = {}}};",
      tile.columns, tile.waves, tile.parts, tile.row_bytes);
}

}  // namespace causeway::codegen
