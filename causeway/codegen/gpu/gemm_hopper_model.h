// How long GEMMs of gemm_hopper.h take on an H200, as a model, and what it chooses by that: tiles, clusters, parts of
// k. Pure: the same arguments give the same choice, which depends on the architecture and never on how many
// multiprocessors a device happens to have, because the parts of k decide the order of sums. gemm_hopper_mainloop.cpp
// asks it, and tests/codegen/fit/fit_gemm_model.cpp fits its figures to measurements of another card.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "causeway/device/gpu_architecture.h"
#include "causeway/kernels/gpu/gemm_hopper_layout.h"
#include "causeway/namespaces.h"

namespace causeway::codegen {

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
constexpr int64_t kSectorBytes = 32;  // of the second-level cache
// Where lines of an operand or of results begin within a sector, in microseconds of an H200. Such lines leave the cache
// once for each block that asks for them, others once for several.
struct HopperGemmSplitSectors {
  double line;                      // of a slice, where all multiprocessors ask for one
  double line_of_one;               // where one multiprocessor does
  double other_line;                // one of the other operand, where its lines begin with sectors, as a part of those
  double result, result_ping_pong;  // of each of a tile's m n
};
// What is fitted to measurements of a card (tests/codegen/fit/fit_gemm_model.cpp).
struct HopperGemmFigures {
  HopperGemmTimes cooperative, ping_pong;  // of cooperative tiles, and of ping-pong ones
  HopperGemmOneTileTimes one_tile;
  HopperGemmRounds rounds;
  HopperGemmPartsOfLines parts_of_lines;
  HopperGemmPower power;
  HopperGemmSplitSectors split_sectors;
};
// Of an H200.
const HopperGemmFigures& hopper_gemm_figures();

struct HopperGemmPlan {
  HopperGemmTile tile;
  int splits = 1;
  int64_t whole_tiles = 0;  // with splits above 1: the first tiles, whose k is not split
};

// How lines of the operands lie: contiguous along k, or side by side.
struct GemmOrder {
  bool a_along_k = true, b_along_k = true;
  // Lines begin within sectors: an odd number of 16 bytes lies between them, or before the first.
  bool a_splits_sectors = false, b_splits_sectors = false, results_split_sectors = false;
  bool a_in_registers = false;                // floats of A that are not along k
  bool few_batch_dimensions = true;           // one at most: such lines can be copied to several blocks at once
  bool may_swap = false;                      // operands and what is sent are of two bytes, and nothing is added to it
  bool one_result = true;                     // and not two
  int least_boxes = kHopperGemmBoxesOfPiece;  // of a warp, for results and what is read beside them
};

// A plan, but for its stages, and what the model (HopperGemmTimes and others) says that it takes.
struct HopperGemmOffer {
  HopperGemmPlan plan;
  double microseconds;
};

// What choose_hopper_gemm takes the fastest of.
std::vector<HopperGemmOffer> hopper_gemm_offers(const GpuArchitecture& architecture, HopperGemmAccumulators sums,
                                                HopperGemmStores stores, int64_t batch, int64_t m, int64_t n, int64_t k,
                                                GemmOrder order = {},
                                                const HopperGemmFigures& figures = hopper_gemm_figures());

// The fastest of them, with its stages. Sizes may be kUnknownSize, which are taken to be large; a GEMM whose sizes are
// not all known is never split. `stores`: how results leave, not kAny.
HopperGemmPlan choose_hopper_gemm(const GpuArchitecture& architecture, HopperGemmAccumulators sums,
                                  HopperGemmStores stores, int64_t batch, int64_t m, int64_t n, int64_t k,
                                  GemmOrder order = {});

// "static constexpr HopperGemmTile kTile = {.m = 128, ...};".
std::string gemm_tile_text(const HopperGemmTile& tile);

}  // namespace causeway::codegen
