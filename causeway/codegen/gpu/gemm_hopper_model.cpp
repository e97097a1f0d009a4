#include "causeway/codegen/gpu/gemm_hopper_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "causeway/codegen/divide_up.h"
#include "causeway/codegen/gpu/gemm_sizes.h"

namespace causeway::codegen {
namespace {

// Tiles of Hopper's GEMMs as {m, n, ping_pong, measured, ...}. Fitted, with the times below, to the times of GEMMs
// of bf16 on H200s in tests/kernels: hopper_gemms_h200.txt, some 300 more of shapes that had been slow, and what 116
// others gained or lost, beside cuBLASLt, where their plan changed (docs/log/gemm.md); 128 x 208 ping-pong is
// set between what these say and what training steps gained. hopper_gemms_in_a_row_h200.txt is what the energy,
// HopperGemmFigures::power, was fitted to, hopper_gemms_one_tile_h200.txt what HopperGemmFigures::one_tile was, but for
// what results take and an element, which 271 plans of large tiles were, those of 200 shapes drawn at random among them
// (docs/log/gemm.md); tiles of 192 rows are set by hand from hopper_gemms_192_rows_h200.txt. None of those of
// 16-bit operands spills with what the epilogues that it is for keep in registers: 256 x 208 would with others. Those
// of 8-bit operands, and ping-pong ones whose results are stored otherwise than by TMA, are set by hand
// from fewer runs; 128 x 192 ping-pong is not among the latter. Those that results are added to (kByTmaAdded) were
// fitted to hopper_gemms_added_h200.txt and to GEMMs on an H100. Clusters of two of larger GEMMs took 0.89 to 1.08
// times as long, in a row 0.99 to 1.02, and steps as long or longer.
constexpr unsigned kOne = 1 << static_cast<int>(HopperGemmAccumulators::kOne);
constexpr unsigned kPromoted = 1 << static_cast<int>(HopperGemmAccumulators::kPromoted);
constexpr unsigned kBlockScaled = 1 << static_cast<int>(HopperGemmAccumulators::kBlockScaled);
constexpr unsigned kAnyBlockScaled = kBlockScaled | 1 << static_cast<int>(HopperGemmAccumulators::kBlockScaledByColumn);
constexpr auto kByTma = HopperGemmStores::kByTma, kByTmaAdded = HopperGemmStores::kByTmaAdded,
               kOther = HopperGemmStores::kOther;
constexpr HopperGemmSchedule kHopperGemm[] = {
    // clang-format off
    {64, 64, false, 1.040, kOne}, {64, 80, false, 1.032, kOne}, {64, 96, false, 1.058, kOne},
    {64, 112, false, 1.033, kOne}, {64, 128, false, 1.037, kOne}, {64, 144, false, 1.104, kOne},
    {64, 160, false, 1.014, kOne}, {64, 176, false, 1.055, kOne}, {64, 192, false, 1.027, kOne},
    {64, 208, false, 1.035, kOne}, {64, 224, false, 1.051, kOne}, {64, 240, false, 1.056, kOne},
    {64, 256, false, 1.008, kOne}, {128, 64, false, 1.034, kOne}, {128, 80, false, 1.082, kOne},
    {128, 96, false, 1.068, kOne}, {128, 112, false, 1.003, kOne}, {128, 128, false, 0.983, kOne},
    {128, 144, false, 1.005, kOne}, {128, 160, false, 1.006, kOne}, {128, 176, false, 0.966, kOne},
    {128, 192, false, 0.987, kOne}, {128, 208, false, 0.988, kOne}, {128, 224, false, 0.999, kOne},
    {128, 240, false, 0.974, kOne}, {128, 256, false, 0.990, kOne},
    {192, 96, false, 1.09, kOne}, {192, 112, false, 1.02, kOne}, {192, 128, false, 1.02, kOne},
    {192, 144, false, 1.025, kOne}, {192, 160, false, 1.01, kOne}, {192, 176, false, 1.025, kOne},
    {192, 192, false, 0.98, kOne}, {256, 64, false, 1.060, kOne},
    {256, 80, false, 1.040, kOne}, {256, 96, false, 1.038, kOne}, {256, 128, false, 1.007, kOne},
    {256, 144, false, 1.009, kOne}, {256, 160, false, 1.002, kOne}, {256, 176, false, 1.008, kOne},
    {256, 192, false, 0.964, kOne}, {256, 208, false, 0.996, kOne, kByTma},
    {64, 96, true, 1.022, kOne, kByTma}, {64, 128, true, 0.999, kOne, kByTma}, {64, 144, true, 1.023, kOne, kByTma},
    {64, 160, true, 0.993, kOne, kByTma}, {64, 176, true, 1.006, kOne, kByTma}, {64, 192, true, 1.007, kOne, kByTma},
    {64, 208, true, 1.016, kOne, kByTma}, {64, 224, true, 1.042, kOne, kByTma}, {64, 240, true, 1.042, kOne, kByTma},
    {64, 256, true, 0.978, kOne, kByTma}, {128, 96, true, 1.045, kOne, kByTma}, {128, 112, true, 1.011, kOne, kByTma},
    {128, 128, true, 0.964, kOne, kByTma}, {128, 144, true, 0.962, kOne, kByTma}, {128, 160, true, 0.964, kOne, kByTma},
    {128, 176, true, 0.974, kOne, kByTma}, {128, 192, true, 0.987, kOne, kByTma}, {128, 208, true, 0.988, kOne, kByTma},
    {256, 160, false, 0.97, kOne, kByTmaAdded},
    {64, 256, true, 1.30, kOne, kByTmaAdded, 815}, {128, 128, true, 0.98, kOne, kByTmaAdded, 930, 1.3},
    {128, 160, true, 1.06, kOne, kByTmaAdded, 930, 1.3}, {128, 192, true, 1.00, kOne, kByTmaAdded, 930, 1.3},
    {64, 256, true, 1.05, kOne, kOther, 815}, {128, 128, true, 0.97, kOne, kOther, 930, 1.3},
    {128, 160, true, 1.10, kOne, kOther, 930, 1.3},
    {128, 192, false, 1.0, kPromoted}, {128, 224, false, 1.005, kPromoted}, {128, 128, false, 1.04, kPromoted},
    {128, 128, false, 1.12, kAnyBlockScaled}, {128, 64, false, 1.44, kPromoted | kAnyBlockScaled},
    {64, 128, false, 1.15, kPromoted | kAnyBlockScaled}, {64, 64, false, 1.36, kPromoted | kAnyBlockScaled},
    {256, 128, false, 1.03, kBlockScaled},
    // clang-format on
};
constexpr HopperGemmFigures kHopperGemmFigures = {
    .cooperative = {.begin = 3.58,
                    .element = 2.486e-05,
                    .element_of_64 = 1.702e-05,
                    .line = 0.001253,
                    .wait = 0,
                    .last_round = 0.962,
                    .padding = 0.0852,
                    .store = 0.169,
                    .narrow_store = 1.31,
                    .first_slices = 0,
                    .a_side_by_side = 0.964,
                    .b_side_by_side = 1.08,
                    .crossing = 0.721},
    .ping_pong = {.begin = 2.94,
                  .element = 2.022e-05,
                  .element_of_64 = 1.485e-05,
                  .line = 0.000966,
                  .wait = 0.0742,
                  .last_round = 0.879,
                  .padding = 0,
                  .store = 0,
                  .narrow_store = 0,
                  .first_slices = 1.58,
                  .a_side_by_side = 1.08,
                  .b_side_by_side = 1.31,
                  .crossing = 0.964},
    .one_tile = {.begin = 5.811,
                 .result = 6.67e-5,
                 .few_results = 10600,
                 .element = 1.38e-5,
                 .clock = 0.334,
                 .line = 6.09e-4,
                 .all_lines = 7.016e-4,
                 .line_of_group = 0.81,
                 .a_line = 1.228,
                 .parts_of_lines = 1.45,
                 .way = 1.104,
                 .a_side_by_side = 0.882,
                 .b_side_by_side = 0.427,
                 .crossing = 3.748,
                 .combine_launch = 2.891,
                 .combine_bytes = 6.05e6,
                 .cluster = 0.497,
                 .out_of_step = 0.0285,
                 .few_blocks = 104},
    .rounds = {.begin = 2.8, .part = 0.805, .part_side_by_side = 0.85, .long_part = 0.095, .long_time = 100},
    .parts_of_lines = {.most = 0.1, .most_ping_pong = 0.2, .few = 0.0125, .many = 0.0156},
    .power = {.multiply_add = 0.504,
              .line = 75.6,
              .operand = 28.4,
              .ping_pong = 0.22,
              .store = 1.08,
              .part = 4.6,
              .crossing = 0.34},
    .split_sectors = {
        .line = 0.00307, .line_of_one = 0.0012, .other_line = 0.558, .result = 9.43e-5, .result_ping_pong = 6.41e-5}};

// From which k such lines took longer with one tile each: those of 5,600 and 7,904 did, of 2,208 they did not.
constexpr int64_t kHopperGemmLongLines = 4096;
// In the order of their tiles, which counts where each has one, blocks without clusters fill groups of multiprocessors
// (GPCs) of 16 or 18 one after the other. The cache has two halves, between which lines pass: what counts as much as a
// line that a group wants is, of a line that half of the groups want, so many of it. And up to how many tiles one above
// the other are tried as those that come before others.
constexpr int64_t kHopperGemmUnitGroups = 8, kHopperGemmMostTogether = 32;
constexpr double kHopperGemmLineOfHalf = 1.125;
// The k from which sums of several rounds were faster.
constexpr int64_t kHopperGemmLongestOneTile = 32768;
// Such tiles in clusters of eight, whose blocks each load a half and a quarter of what they share, lines along k: from
// which k they were faster.
constexpr int64_t kHopperGemmLeastInClusters = 2048;
// Sums of larger tiles leave too few registers for a cluster's blocks: 256 x 208 would spill.
constexpr int kHopperGemmLargestInClusters = 256 * 192;
// Of each element of a tile that warpgroups share, where TMA loads what results are computed of, and where
// they are stored otherwise.
constexpr double kHopperGemmAddedStore = 1.4e-4, kHopperGemmOtherStore = 1e-4;
// Where lines of A lie side by side, what a tile of 64 rows that warpgroups share takes as a multiple.
constexpr double kHopperGemmFewRowsSideBySide = 1.17;
// Where lines of B lie side by side and begin within 128 bytes, what a tile of 192 rows takes as a multiple: three
// warpgroups read each line from shared memory, which is written meanwhile.
constexpr double kHopperGemmThreeReadCrossing = 1.1;
// Of plans that take as long, to the model, those whose results leave as they lie: what transposes take as a multiple
// where there are more tiles than multiprocessors.
constexpr double kHopperGemmSwapped = 1.001;
// A fifth stage in place of some of the room for results: up to how many rounds and which k it was measured (31 plans
// of an H200), and what it takes as a multiple. With many rounds results wait for room longer than slices would.
constexpr int64_t kHopperGemmFewRounds = 4, kHopperGemmLongestFewRounds = 4096;
constexpr double kHopperGemmFifthStage = 0.985;
// Two rounds of small tiles took more than one tile each where the models said the same: 1,376 x 2,560 x 2,560 NN,
// 9,440 x 512 x 3,072 and 7,264 x 512 x 1,280 5 % to 15 %.
constexpr int kHopperGemmSmallTile = 128 * 144;
constexpr double kHopperGemmTwoOfSmallTiles = 1.015;
// Of a k that is split: the second launch, and bytes that it moves in a microsecond.
constexpr double kHopperGemmCombineLaunch = 3.9, kHopperGemmCombineBytes = 7.1e6;
// The longest k whose stores are worth hiding.
constexpr int64_t kHopperGemmLongestPingPong = 8192, kHopperGemmLongestPingPongAdded = 4096;

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
                      const GpuGemmSizes& sizes, int64_t tiles, int64_t units) {
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
  // `order`: of the GEMM that is computed, swapped or not. `tile`: the schedule's, with its cluster.
  HopperGemmModel(const HopperGemmFigures& figures, const GpuGemmSizes& sizes, const HopperGemmSchedule& schedule,
                  const HopperGemmTile& tile, HopperGemmAccumulators sums, HopperGemmStores stores, GemmOrder order,
                  int64_t units)
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
    const int64_t tiles_m = tile.cluster_m * divide_up(sizes.m, hopper_gemm_cluster_rows(tile));
    const int64_t tiles_n = tile.cluster_n * divide_up(sizes.n, hopper_gemm_cluster_columns(tile));
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
    slice_ = longer(multiply_adds, std::max(lines, split_lines(tile) * figures.split_sectors.line)) *
                 parts_of_lines_of_rounds(sizes) * (1 - padding * (1 - there)) +
             times_.wait;
    if (!schedule.ping_pong && stores != HopperGemmStores::kByTma)
      other_store_ = (stores == HopperGemmStores::kByTmaAdded ? kHopperGemmAddedStore : kHopperGemmOtherStore) * m * n;
    const bool narrow = stores == HopperGemmStores::kOther && schedule.n % 32 != 0;
    store_ = (narrow ? times_.narrow_store : times_.store) + schedule.store + other_store_;
    if (order.results_split_sectors)
      store_ += m * n * (schedule.ping_pong ? figures.split_sectors.result_ping_pong : figures.split_sectors.result);
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
    const double split =
        std::max(figures_.split_sectors.line * part, figures_.split_sectors.line_of_one) * split_lines(tile);
    const double slice = longer(longer(multiply_adds, times.way / tile.stages),
                                longer(times.line * (lines_a + lines_b), std::max(from_cache, split)));
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
  // Lines that a block of `tile` asks for itself, where some split sectors: in so many of those.
  double split_lines(const HopperGemmTile& tile) const {
    if (!order_.a_splits_sectors && !order_.b_splits_sectors) return 0;
    const double other = figures_.split_sectors.other_line;
    return (order_.a_splits_sectors ? 1 : other) * static_cast<double>(tile.m) / tile.cluster_n +
           (order_.b_splits_sectors ? 1 : other) * lines_of_b(schedule_, order_, 0) / tile.cluster_m;
  }
  // Where neither operand's lines begin at a multiple of 128 bytes, what a slice takes as a multiple.
  double parts_of_lines_of_rounds(const GpuGemmSizes& sizes) const {
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
  double rounds(int64_t tiles) const { return static_cast<double>(divide_up(tiles, units_)); }
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

HopperGemmGrid hopper_gemm_grid(const GpuGemmSizes& sizes, const HopperGemmTile& tile, int splits) {
  return {sizes.batch, tile.cluster_m * divide_up(sizes.m, hopper_gemm_cluster_rows(tile)),
          tile.cluster_n * divide_up(sizes.n, hopper_gemm_cluster_columns(tile)), splits};
}

// Tiles of a cluster: so many one above the other and side by side.
struct HopperGemmCluster {
  int above, beside;
};

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
  void consider(const GpuGemmSizes& sizes, GemmOrder order, bool swapped) {
    const std::span<const HopperGemmCluster> clusters = clusters_for(sizes, order);
    for (const HopperGemmSchedule& candidate : hopper_gemm_schedules()) {
      if (!candidate.holds(sums_) || (candidate.stores != HopperGemmStores::kAny && candidate.stores != stores_))
        continue;
      // With fewer stages slices would wait for one another.
      constexpr int kLeastStages = 3;
      if (order.least_boxes > kHopperGemmBoxesOfPiece &&
          hopper_gemm_most_stages({candidate.m, candidate.n, 0, 1, candidate.ping_pong, order.b_along_k},
                                  order.least_boxes) < kLeastStages)
        continue;
      // Of more rows for a warpgroup there are too few.
      if (order.a_in_registers && (candidate.ping_pong || candidate.m > 128)) continue;
      HopperGemmTile tile = {candidate.m, candidate.n, 0, 1, candidate.ping_pong, order.b_along_k};
      tile.swapped = swapped;
      const bool may_have_one_each = sums_ == HopperGemmAccumulators::kOne && sizes.all_known && !candidate.ping_pong &&
                                     sizes.k <= kHopperGemmLongestOneTile;
      const HopperGemmModel model(figures_, sizes, candidate, tile, sums_, stores_, order, units_);
      consider_tile(sizes, order, model, candidate, tile, may_have_one_each);
      for (const auto [above, beside] : clusters) {
        tile.cluster_m = above;
        tile.cluster_n = beside;
        if (tile.m * tile.n > kHopperGemmLargestInClusters || !shares_whole_boxes(tile, order)) continue;
        const HopperGemmModel shared(figures_, sizes, candidate, tile, sums_, stores_, order, units_);
        if (hopper_gemm_cluster(tile) == 2) {
          consider_tile(sizes, order, shared, candidate, tile, may_have_one_each);
        } else if (may_have_one_each) {
          consider_one_tile_each(sizes, shared, tile, architecture_.blocks_in_clusters_of_eight,
                                 may_split(sizes, tile) && splits_sectors(order));
        }
      }
    }
  }

  std::vector<HopperGemmOffer> take_offers() { return std::move(offers_); }

 private:
  static bool splits_sectors(const GemmOrder& order) { return order.a_splits_sectors || order.b_splits_sectors; }

  // Clusters whose blocks share lines by multicast: of any size where lines split sectors, each of which leaves the
  // cache for each block that asks for it; of eight where k is long.
  std::span<const HopperGemmCluster> clusters_for(const GpuGemmSizes& sizes, const GemmOrder& order) const {
    static constexpr HopperGemmCluster kClusters[] = {{2, 4}, {4, 2}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {1, 4}};
    constexpr size_t kOfEight = 2;
    const std::span<const HopperGemmCluster> all = kClusters;
    if (sums_ != HopperGemmAccumulators::kOne || !sizes.all_known || !order.few_batch_dimensions ||
        order.a_in_registers || architecture_.blocks_in_clusters_of_eight == 0)
      return {};
    if (splits_sectors(order)) return all;
    const bool is_long = order.a_along_k && order.b_along_k && sizes.k >= kHopperGemmLeastInClusters;
    return is_long ? all.first(kOfEight) : all.first(0);
  }
  // What a block of a cluster loads for all is whole lines of a swizzle, or whole boxes.
  static bool shares_whole_boxes(const HopperGemmTile& tile, const GemmOrder& order) {
    const auto whole = [&](bool is_b, bool along_k, int size, int sharers) {
      return sharers == 1 || (size % sharers == 0 && hopper_gemm_loaded_lines(tile, is_b) % (along_k ? 8 : 64) == 0);
    };
    return whole(false, order.a_along_k, tile.m, tile.cluster_n) &&
           whole(true, order.b_along_k, tile.n, tile.cluster_m);
  }

  void consider_tile(const GpuGemmSizes& sizes, GemmOrder order, const HopperGemmModel& model,
                     const HopperGemmSchedule& candidate, const HopperGemmTile& tile, bool may_have_one_each) {
    if (candidate.ping_pong) {
      // A block that computes a single tile has nothing to do beside it. Long sums hide their stores anyway.
      const int64_t longest =
          stores_ == HopperGemmStores::kByTmaAdded ? kHopperGemmLongestPingPongAdded : kHopperGemmLongestPingPong;
      if (sizes.k <= longest && model.tiles() >= 2 * units_) offer_rounds(sizes, order, model, tile);
      return;
    }
    if (may_have_one_each) consider_one_tile_each(sizes, model, tile, units_, may_split(sizes, tile));
    if (!may_have_one_each || model.tiles() > units_) offer_rounds(sizes, order, model, tile);
    if (may_split(sizes, tile)) consider_parts(sizes, model, tile, may_have_one_each);
  }

  // Parts of k are added up as C lies.
  static bool may_split(const GpuGemmSizes& sizes, const HopperGemmTile& tile) {
    return sizes.all_known && !tile.swapped;
  }

  // As many tiles, or `in_parts` parts of their k, as at most `blocks`.
  void consider_one_tile_each(const GpuGemmSizes& sizes, const HopperGemmModel& model, const HopperGemmTile& tile,
                              int64_t blocks, bool in_parts) {
    if (model.tiles() <= blocks) offer_one_tile_each(sizes, model, tile, model.tiles(), 1, model.slices());
    if (!in_parts) return;
    for_each_split(model, [&](int splits, int64_t each) {
      if (model.tiles() * splits <= blocks)
        offer_one_tile_each(sizes, model, tile, model.tiles() * splits, splits, each);
    });
  }

  // `consider(splits, each)`: so many parts of k, of so many slices each but the last.
  template <class Consider>
  static void for_each_split(const HopperGemmModel& model, Consider&& consider) {
    for (int splits = 2; splits <= kGpuGemmMostSplits; ++splits) {
      const int64_t each = divide_up(model.slices(), int64_t{splits});
      if (each * kHopperGemmDepth < kGpuGemmLeastSplitK) return;
      if (each * (splits - 1) < model.slices()) consider(splits, each);  // otherwise a part would be empty
    }
  }

  void offer(double microseconds, const HopperGemmPlan& plan) { offers_.push_back({plan, microseconds}); }
  void offer_rounds(const GpuGemmSizes& sizes, GemmOrder order, const HopperGemmModel& model,
                    const HopperGemmTile& tile) {
    double time = model.time();
    if (tile.swapped) time *= kHopperGemmSwapped;
    if (sums_ == HopperGemmAccumulators::kOne && !tile.ping_pong && tile.m * tile.n <= kHopperGemmSmallTile &&
        model.tiles() <= 2 * units_)
      time *= kHopperGemmTwoOfSmallTiles;
    if (fifth_stage_pays(tile, sums_, stores_, order, sizes, model.tiles(), units_)) time *= kHopperGemmFifthStage;
    offer(time, {tile});
  }

  void offer_one_tile_each(const GpuGemmSizes& sizes, const HopperGemmModel& model, HopperGemmTile tile, int64_t blocks,
                           int splits, int64_t each) {
    tile.results_in_stages = true;
    tile.stages = hopper_gemm_best_stages(tile);
    // Clusters are dealt out to the groups in turns: hardly any of a group's have the same lines.
    const int64_t lines = hopper_gemm_cluster(tile) > 1 ? blocks * (tile.m / tile.cluster_n + tile.n / tile.cluster_m)
                                                        : order_tiles(tile, hopper_gemm_grid(sizes, tile, splits));
    offer(model.time_of_one_tile_each(tile, blocks, lines, splits, each), {tile, splits});
  }

  // All tiles in parts, or those of the last round, which then fill it: more parts than one for each multiprocessor.
  void consider_parts(const GpuGemmSizes& sizes, const HopperGemmModel& model, const HopperGemmTile& tile,
                      bool may_have_one_each) {
    const int64_t full = model.tiles() / units_ * units_;
    for (const int64_t whole : {int64_t{0}, full}) {
      if (whole == model.tiles()) continue;
      for_each_split(model, [&](int splits, int64_t each) {
        if (may_have_one_each && model.tiles() * splits <= units_) return;
        offer(model.time_of_parts(whole, splits, each), {tile, splits, whole / hopper_gemm_cluster(tile)});
      });
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

std::span<const HopperGemmSchedule> hopper_gemm_schedules() { return kHopperGemm; }
const HopperGemmFigures& hopper_gemm_figures() { return kHopperGemmFigures; }

std::vector<HopperGemmOffer> hopper_gemm_offers(const GpuArchitecture& architecture, HopperGemmAccumulators sums,
                                                HopperGemmStores stores, int64_t batch, int64_t m, int64_t n, int64_t k,
                                                GemmOrder order, const HopperGemmFigures& figures) {
  HopperGemmCandidates candidates(figures, architecture, sums, stores);
  candidates.consider(GpuGemmSizes(batch, m, n, k), order, false);
  if (order.may_swap) {
    std::swap(order.a_along_k, order.b_along_k);
    std::swap(order.a_splits_sectors, order.b_splits_sectors);
    candidates.consider(GpuGemmSizes(batch, n, m, k), order, true);
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
  const GpuGemmSizes sizes(batch, m, n, k);
  const HopperGemmGrid grid = hopper_gemm_grid(sizes, tile, plan.splits);
  const int64_t whole = plan.splits > 1 ? plan.whole_tiles * hopper_gemm_cluster(tile) : 0;
  const int64_t work = whole + (grid.batch * grid.rows * grid.columns - whole) * plan.splits;
  // Where no block computes a second tile, results may leave from where its slices were.
  if (sums == HopperGemmAccumulators::kOne && sizes.all_known && !tile.ping_pong && !tile.results_in_stages &&
      hopper_gemm_cluster(tile) == 1 && work <= architecture.parallel_units) {
    tile.results_in_stages = true;
    order_tiles(tile, grid);
  }
  const bool has_fifth_stage =
      plan.splits == 1 && fifth_stage_pays(tile, sums, stores, order, sizes, work, architecture.parallel_units);
  tile.stages = has_fifth_stage ? 5 : hopper_gemm_best_stages(tile, order.least_boxes);
  return plan;
}

std::string gemm_tile_text(const HopperGemmTile& tile) {
  return fmt::format(
      "static constexpr HopperGemmTile kTile = {{.m = {}, .n = {}, .stages = {}, .cluster_m = {}, .ping_pong = {}, "
      ".b_along_k = {}, .results_in_stages = {}, .cluster_n = {}, .rows_together = {}, .swapped = {}}};",
      tile.m, tile.n, tile.stages, tile.cluster_m, tile.ping_pong, tile.b_along_k, tile.results_in_stages,
      tile.cluster_n, tile.rows_together, tile.swapped);
}

}  // namespace causeway::codegen
