// The ways in which templates of GPU kernels can be run, as tables: for each architecture the candidates, what they
// cost, and which requests they are for. Figures are of the products named in device/gpu_architecture.cpp; a comment
// beside each table says what was measured and what was not. Choosing among the rows (gemm_geometry.h,
// attention_plan.h) is a function of the request and the architecture alone.
#pragma once

#include <optional>
#include <span>

#include "causeway/device/gpu_architecture.h"
#include "causeway/kernels/gpu/attention_tile_layout.h"
#include "causeway/kernels/gpu/gemm_hopper_layout.h"
#include "causeway/kernels/gpu/gemm_layout.h"

namespace causeway::codegen {

// Rows of tables of the kernels that waves compute with fragments are for the instructions that multiply those.
using WaveMatrix = GpuArchitecture::WaveMatrix;

// What is multiplied: 16-bit operands, float rounded to tf32 by matrix instructions, or float.
enum class GemmOperand { kHalf, kTf32, kFloat };

constexpr int operand_bytes(GemmOperand operand) { return operand == GemmOperand::kHalf ? 2 : 4; }

// GEMMs with a side of at most 16 have tiles of their own.
enum class GemmSides { kLarge, kSkinnyM, kSkinnyN };

// gemm.h.
struct GemmSchedule {
  WaveMatrix instructions;
  GemmOperand operand;
  GemmSides sides;
  GpuGemmTile tile;
  double efficiency;  // part of the multipliers' speed (gemm_multiply_adds()) that the tile reaches
};
std::span<const GemmSchedule> gemm_schedules();
// What one multiprocessor multiplies in a microsecond, at best.
double gemm_multiply_adds(const GpuArchitecture& architecture, GemmOperand operand);
// Bytes that all of them move in a microsecond while parts of k are added up.
double gemm_combine_bytes(const GpuArchitecture& architecture);

// What a thread of gemm_hopper.h keeps in registers for each of its elements: a sum; of 8-bit operands two; of 8-bit
// operands with scales a sum and, of 64 rows at a time, that of a slice, where columns have scales of their own those
// too.
enum class HopperGemmAccumulators { kOne, kPromoted, kBlockScaled, kBlockScaledByColumn };

// How results are stored: by TMA; by it, of what it has loaded from their place or another tensor's
// (a residual stream, a sum so far); or otherwise.
enum class HopperGemmStores { kAny, kByTma, kByTmaAdded, kOther };

// gemm_hopper.h, for pairs of bytes.
struct HopperGemmSchedule {
  int m, n;
  bool ping_pong;
  double measured;  // its time, as a multiple of what the model (HopperGemmTimes) says
  unsigned sums;    // bits 1 << HopperGemmAccumulators, of those that there are registers for
  // The stores that it is for. Of ping-pong ones, the k below which a tile takes no less time, and microseconds that a
  // tile takes beside its slices.
  HopperGemmStores stores = HopperGemmStores::kAny;
  double least_k = 0, store = 0;

  constexpr bool holds(HopperGemmAccumulators wanted) const { return (sums >> static_cast<int>(wanted) & 1) != 0; }
};
// Those whose warpgroups share a tile, and those that take turns.
std::span<const HopperGemmSchedule> hopper_gemm_schedules();

// What a GEMM takes, in microseconds of an H200. Multiprocessors compute its tiles in rounds. A slice of a tile
// (kHopperGemmDepth of k) takes as long as the longer of its MMAs and its lines' way from the second-level cache.
struct HopperGemmTimes {
  double begin;          // until the first slice is there, and from the last one to the end
  double element;        // of a tile's m n
  double element_of_64;  // where it has 64 rows
  double line;           // of a tile's m + n
  double wait;           // between the MMAs of two slices
  double last_round;     // of a whole round's time: what a last round with few tiles takes
  double padding;        // part of the time that rows and columns beyond the GEMM's save
  double store;          // of a tile's results: nothing is multiplied meanwhile
  double narrow_store;   // where TMA does not store them, of tiles that are no multiple of 32 columns wide
  double first_slices;   // in tiles' time, over the number of rounds: one warpgroup has nothing to do beside the other
  // Where lines of A, or of B, lie side by side, what one takes as a multiple of `line`; and what lines of B take more
  // where each begins within 128 bytes and ends in the next.
  double a_side_by_side, b_side_by_side, crossing;
};
// Of 16-bit GEMMs that each block computes one tile of, or one part of a tile's k, in microseconds of an H200: all
// want their slices at the same time, and results leave from where slices were. A slice takes the longest of four. The
// last is what leaves the second-level cache: a group of multiprocessors asks once for a line that several of it want
// at about the same time, so that it counts how many lines all multiprocessors want, and how many all groups.
struct HopperGemmOneTileTimes {
  double begin;                // as above, with the results' way
  double result, few_results;  // of each of a tile's m n beyond so many, whose ways are longer
  double element;              // of a tile's m n
  double clock;                // part of that, more where every multiprocessor has a block
  double line;                 // of a line of B
  double all_lines;            // of one that all multiprocessors want, over their number
  double line_of_group;        // of one that groups of them want, as a multiple
  double a_line;               // of a line of A, as a multiple of one of B
  double parts_of_lines;  // where long lines along k do not begin at multiples of 128 bytes, of those from the cache
  double way;             // of a slice to shared memory, over the number of stages: as many slices are under way
  double a_side_by_side, b_side_by_side, crossing;  // as above, of one of A, or B, along k as a multiple
  double combine_launch;                            // where k is split: the second launch
  double combine_bytes;                             // and bytes that it moves in a microsecond
  double cluster;                                   // until the blocks of a cluster have begun
  // What all of it takes more, as a part, where every multiprocessor has a block; of few_blocks nothing, between them
  // in proportion. The more blocks, the more plans whose blocks do not keep step, so that lines are asked for several
  // times.
  double out_of_step;
  int64_t few_blocks;
};
// What several rounds take beside one tile each, in microseconds of an H200. The models of both were fitted to
// different runs: rounds begin later than theirs says, and are faster then. Fitted to 102 plans of two to four rounds,
// 5 % from them (rms; hopper_gemms_few_rounds_h200.txt has most), and beyond long_time to what was chosen.
struct HopperGemmRounds {
  double begin, part;
  double part_side_by_side;  // where neither operand's lines are along k
  double long_part, long_time;
};
// Where lines of both operands are along k and do not all begin at multiples of 128 bytes, what a slice of several
// rounds takes longer, as a part: nothing of tiles with few lines, over their elements, most of those with many. Fitted
// to the 9 such shapes of hopper_gemms_h200.txt (within a shape 2.6 % rms, without it 3.9 %) and to
// hopper_gemms_parts_of_lines_h200.txt, where k is short.
struct HopperGemmPartsOfLines {
  double most, most_ping_pong, few, many;
};
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
// What GEMMs of 16 bits take where one follows another, as in a training step: what their energy takes at the power
// that an H200 may draw, in microseconds for 10^9 multiply-adds.
struct HopperGemmPower {
  double multiply_add;  // in any case
  double line;     // for lines of operands that reach shared memory: times those of a slice for each element of a tile
  double operand;  // for operands that a warpgroup's instruction reads there: times those of 64 rows for each of theirs
  double ping_pong;  // of that, more in ping-pong tiles
  double store;      // beside it, of 10^6 results of tiles that warpgroups share
  double part;       // of 10^6 sums of parts of k
  double crossing;   // of lines, as that of HopperGemmTimes
};
// What is fitted to measurements of a card (tests/codegen/fit/fit_gemm_model.cpp).
struct HopperGemmFigures {
  HopperGemmTimes cooperative, ping_pong;  // of cooperative tiles, and of ping-pong ones
  HopperGemmOneTileTimes one_tile;
  HopperGemmRounds rounds;
  HopperGemmPartsOfLines parts_of_lines;
  HopperGemmPower power;
};
// Of an H200.
const HopperGemmFigures& hopper_gemm_figures();
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

// attention.h: for heads of at most so many elements, padded to 16.
struct AttentionSchedule {
  WaveMatrix instructions;
  int operand_bytes;  // 2; or 4, for all other operands
  int most_head_dim;
  int widest_key_tile;  // that registers allow; 64, 32 or 16
  int query_blocks;     // of 16 queries in each wave, where the map's blocks allow two
  int stages;
  int blocks_per_unit, blocks_per_unit_with_score;
};
std::span<const AttentionSchedule> attention_schedules();

// attention_gradient.h.
struct AttentionGradientSchedule {
  WaveMatrix instructions;
  int operand_bytes;  // as above
  int most_head_dim;
  int widest_tile;
  int stages;
  bool gradients_together;  // keys' and values' gradients fit in registers at once
  // With four waves, without a score; a score takes the registers of one.
  int blocks_per_unit, key_blocks_per_unit;
};
std::span<const AttentionGradientSchedule> attention_gradient_schedules();

// attention_hopper.h and attention_hopper_gradient.h, its joint and its wide one, for operands of two bytes and
// those of the heads of at most so many elements that hopper_attention_serves().
struct HopperAttentionSchedule {
  int most_head_dim;
  HopperAttentionTile forward;
  HopperAttentionTile forward_with_score;  // where a score function takes registers
  HopperAttentionTile forward_computing;   // where computing operands does, with a score function or without
  std::optional<HopperAttentionGradientTile> gradient, gradient_computing;  // none: attention_gradient.h serves them
  // Of all three gradients: in one pass, where that takes less time than two, or by columns that warpgroups share out.
  std::optional<HopperAttentionGradientTile> joint_gradient;
};
std::span<const HopperAttentionSchedule> hopper_attention_schedules();

}  // namespace causeway::codegen
