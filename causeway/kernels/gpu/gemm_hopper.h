// GEMMs on Hopper (sm_90a), for the Problem that gemm.h describes, with the differences that it lists: one
// warpgroup loads slices of A and B by TMA into a ring in shared memory, the others multiply them by
// wgmma. Blocks are persistent: while a tile's results are stored, the slices of the next one are on their way, and
// multiplied where warpgroups compute tiles in turns. A block takes the next tile when it has room for its slices: one
// that begins late, because something else held its multiprocessor, finds that the others have done its work.
// After the ladder that CUTLASS ("warp-specialized persistent cooperative" and "ping-pong") and DeepGEMM describe.
#pragma once

#include "causeway/kernels/gpu/gemm.h"
#include "causeway/kernels/gpu/gemm_hopper_boxes.h"
#include "causeway/kernels/gpu/gemm_hopper_layout.h"
#include "causeway/kernels/gpu/gemm_hopper_schedule.h"
#include "causeway/kernels/gpu/hopper.h"

// What a block shares.
template <class Problem>
struct HopperGemmShared {
  static constexpr HopperGemmTile kTile = Problem::kTile;
  static constexpr int kWaves = hopper_gemm_waves(kTile);
  char* stages = shared_memory();
  char* behind_stages = stages + kTile.stages * hopper_gemm_stage_bytes(kTile);
  char* pieces = kTile.results_in_stages ? stages : behind_stages;
  Mbarrier* loaded = reinterpret_cast<Mbarrier*>(
      behind_stages + (kTile.results_in_stages ? 0 : kWaves * hopper_gemm_wave_bytes(kTile)));
  Mbarrier* full = loaded + kWaves * kHopperGemmMostBoxes;
  Mbarrier* empty = full + kTile.stages;
  Mbarrier* left = empty + kTile.stages;  // results have, where stages are their room
  int32_t* notes = reinterpret_cast<int32_t*>(left + 1);

  // Operands of the first stage: A from the tile's first_block'th 64 rows on, and B.
  static constexpr int kBoxBytes = 64 * kHopperGemmDepth * 2;
  CAUSEWAY_INLINE uint64_t descriptor_a(int first_block) const {
    return matrix_descriptor(stages + first_block * kBoxBytes, kBoxBytes, 1024, 128);
  }
  CAUSEWAY_INLINE uint64_t descriptor_b() const {
    return matrix_descriptor(stages + kTile.m * kHopperGemmDepth * 2, kBoxBytes, 1024, 128);
  }
};

// The block's tiles, as the thread that loads them notes them for those that multiply: a ring without barriers of its
// own. A warpgroup's next tile is noted before the last slice of the tile that it computes is announced, so that who
// has waited for that slice reads it beside the last GEMMs.
template <class Problem>
struct HopperGemmNotes {
  static constexpr HopperGemmTile kTile = Problem::kTile;
  static constexpr int kCount = hopper_gemm_notes(kTile);
  // From a warpgroup's tile to its next one.
  static constexpr int kStep = kTile.ping_pong ? 2 : 1;
  // In place of a tile: the block's tiles ended before it; there was none before it either.
  static constexpr int kNone = -1, kNoneBefore = -2;
  int at = 0;

  CAUSEWAY_INLINE void advance(int count) {
    at += count;
    if (at >= kCount) at -= kCount;
  }
};

// The block's tile after `before`, its first after -1; schedule.work or more when none is left. One thread. Blocks of a
// cluster would have to agree: theirs are dealt out. So are tiles that are no more than blocks: a block that begins
// early would take a second one while another has none, and each would wait for the counter, which lies in memory.
template <class Problem>
CAUSEWAY_INLINE int hopper_gemm_take(const HopperGemmSchedule<Problem>& schedule, uint32_t* counter, int before) {
  constexpr int kCluster = hopper_gemm_cluster(Problem::kTile);
  if constexpr (kCluster > 1) {
    return before < 0 ? block_index() / kCluster : before + block_count() / kCluster;
  } else {
    if (schedule.work <= block_count()) return before < 0 ? block_index() : schedule.work;
    return take_task(counter, schedule.work, HopperGemmNotes<Problem>::kStep);
  }
}

template <class Problem>
CAUSEWAY_INLINE void hopper_gemm_note(const HopperGemmShared<Problem>& shared,
                                      const HopperGemmSchedule<Problem>& schedule, int at, int index, int before) {
  using Notes = HopperGemmNotes<Problem>;
  shared.notes[at] = index < schedule.work ? index : before < schedule.work ? Notes::kNone : Notes::kNoneBefore;
}

// Loads the slices of all tiles of this block, of which `index` is the first and, in turns, `second` the second; one
// thread.
template <class Problem>
CAUSEWAY_INLINE void hopper_gemm_load(const Problem& problem, const TensorMapBytes* maps, uint32_t* counter, int index,
                                      int second, int rank, const HopperGemmShared<Problem>& shared) {
  constexpr HopperGemmTile kTile = Problem::kTile;
  constexpr int kDepth = kHopperGemmDepth, kABytes = kTile.m * kDepth * 2;
  constexpr int kBoxBytes = HopperGemmShared<Problem>::kBoxBytes;
  constexpr int kLinesA = hopper_gemm_loaded_lines(kTile, false), kLinesB = hopper_gemm_loaded_lines(kTile, true);
  constexpr bool kSharesA = kTile.cluster_n > 1, kSharesB = kTile.cluster_m > 1;
  const auto sharers_of_a = static_cast<uint16_t>(hopper_gemm_sharers(kTile, false, rank));
  const auto sharers_of_b = static_cast<uint16_t>(hopper_gemm_sharers(kTile, true, rank));
  const int first_a = rank / kTile.cluster_m * kLinesA, first_b = rank % kTile.cluster_m * kLinesB;
  constexpr int kLoadedBytes =
      Problem::B::kContiguousInK ? (kTile.m + kTile.n) * kDepth * 2 : hopper_gemm_stage_bytes(kTile);
  using Notes = HopperGemmNotes<Problem>;
  const HopperGemmSchedule<Problem> schedule(problem);
  StageRing<kTile.stages> ring;
  Notes notes;
  notes.advance(Notes::kStep);
  int taken = kTile.ping_pong ? second : index;  // the last one
  [[maybe_unused]] int tiles_before = 0;
#pragma clang loop unroll(disable)
  while (index < schedule.work) {
    const HopperGemmPosition tile(schedule, index, rank);
    const int before = taken;
    // Early enough to be known with the last slice, late enough to leave the tile to a block that gets there first.
    const int asks = tile.slices > kTile.stages ? tile.slices - kTile.stages : 0;
#pragma clang loop unroll(disable)
    for (int slice = 0; slice < tile.slices; ++slice) {
      if (slice == asks) taken = hopper_gemm_take(schedule, counter, before);
      const int k = (tile.first_slice + slice) * hopper_gemm_slice_k(sizeof(typename Problem::Operand));
      barrier_wait(shared.empty + ring.stage, ring.parity ^ 1);
      if (slice + 1 == tile.slices) hopper_gemm_note(shared, schedule, notes.at, taken, before);
      Mbarrier* barrier = shared.full + ring.stage;
      barrier_expect_bytes(barrier, kLoadedBytes);
      const auto load_a = [&](char* to, int contiguous, int other) {
        if constexpr (kSharesA) {
          problem.a.load_multicast(to, &maps[0], barrier, contiguous, other, tile.batch, sharers_of_a);
        } else {
          problem.a.load(to, &maps[0], barrier, contiguous, other, tile.batch);
        }
      };
      const auto load_b = [&](char* to, int contiguous, int other) {
        if constexpr (kSharesB) {
          problem.b.load_multicast(to, &maps[1], barrier, contiguous, other, tile.batch, sharers_of_b);
        } else {
          problem.b.load(to, &maps[1], barrier, contiguous, other, tile.batch);
        }
      };
      char* lines = shared.stages + ring.stage * hopper_gemm_stage_bytes(kTile);
      char* a = lines + first_a * (kDepth * 2);
      char* b = lines + kABytes + first_b * (kDepth * 2);
      if constexpr (Problem::A::kContiguousInK) {
        load_a(a, k, tile.m + first_a);
      } else {
        // As many lines in 128 bytes as a slice has of k.
        constexpr int kLines = hopper_gemm_slice_k(sizeof(typename Problem::Operand));
#pragma clang loop unroll(full)
        for (int box = 0; box < kLinesA / kLines; ++box)
          load_a(a + box * kLines * 128, tile.m + first_a + box * kLines, k);
      }
      constexpr int kBoxes = Problem::B::kContiguousInK ? 1 : (kLinesB + 63) / 64;
#pragma clang loop unroll(full)
      for (int box = 0; box < kBoxes; ++box) {
        const int line = tile.n + first_b + box * 64;
        load_b(b + box * kBoxBytes, Problem::B::kContiguousInK ? k : line, Problem::B::kContiguousInK ? line : k);
      }
      ring.advance();
    }
    notes.advance(1);
    index = kTile.ping_pong ? before : taken;
    if constexpr (kTile.results_in_stages) {
      if (index < schedule.work) barrier_wait(shared.left, tiles_before++ % 2);
    }
  }
  // The block may end when no other will load into it or arrive at its barriers: when all have handed back all stages.
  if constexpr (hopper_gemm_cluster(kTile) > 1) {
#pragma clang loop unroll(disable)
    for (int stage = 0; stage < kTile.stages; ++stage) {
      barrier_wait(shared.empty + ring.stage, ring.parity ^ 1);
      ring.advance();
    }
  }
}

// Sums of 8-bit GEMMs lose bits as they grow (14 are kept when a GEMM is added), so that those of a few slices
// are added up in float: 512 of k. ("DeepSeek-V3 Technical Report", section 3.3.2.) 0: all slices go into one sum.
template <class Operand>
constexpr int kHopperGemmSlicesPerSum = kIsF8Pair<Operand> ? 4 : 0;

// What a thread keeps of a tile while it multiplies: its sums, and those of a few slices.
template <class Problem>
constexpr int kHopperGemmSums =
    (hopper_gemm_row_blocks(Problem::kTile) + (kHopperGemmSlicesPerSum<typename Problem::Operand> > 0 ? 1 : 0)) *
    Problem::kTile.n / 2;

// And each column of its own.
template <class Problem>
constexpr bool kHopperGemmColumnScales = requires { requires Problem::kBLinesOfScale == 1; };

// The scales of four slices for a thread's sums[i] of each 64 rows that its warpgroup has: rows row and row + 8,
// columns from lane % 4 * 2 on by eights. A scale that four neighbours share is loaded by each of them for another
// slice.
template <class Problem>
struct HopperGemmFourScales {
  static constexpr HopperGemmTile kTile = Problem::kTile;
  static constexpr int kRowBlocks = hopper_gemm_row_blocks(kTile);
  static constexpr bool kSharedColumns = !kHopperGemmColumnScales<Problem>;
  static_assert(!kSharedColumns || Problem::kBLinesOfScale % kTile.n == 0);
  float rows[kRowBlocks * 2];
  float column;  // where all columns share one

  // Of slices slice .. slice + 3 of the tile. `first_block`: the warpgroup's first 64 of the tile's rows.
  CAUSEWAY_INLINE void load(const Problem& problem, const HopperGemmPosition& tile, int first_block, int slice) {
    const int lane = lane_index(), own = slice + lane % 4;
    const int k_block = tile.first_slice + (own < tile.slices ? own : tile.slices - 1);
    const int first_row = tile.m + first_block * 64 + thread_index() % 128 / 32 * 16 + lane / 4;
#pragma clang loop unroll(full)
    for (int i = 0; i < kRowBlocks * 2; ++i) {
      const int row = first_row + i / 2 * 64 + i % 2 * 8;
      const bool exists = problem.m % hopper_gemm_cluster_rows(kTile) == 0 || row < static_cast<int>(problem.m);
      rows[i] = *problem.a_scale(exists ? row : 0, k_block);
    }
    if constexpr (kSharedColumns) column = *problem.b_scale(tile.n, k_block);
  }
  // Of rows i % 2 * 8 of block i / 2 in the slice that follows the first by `slice`, times the columns' if they share
  // one.
  CAUSEWAY_INLINE float of(int i, int slice) const {
    const int from = lane_index() / 4 * 4 + slice;
    const float row = wave_shuffle(rows[i], from);
    return kSharedColumns ? row * wave_shuffle(column, from) : row;
  }
};

// The scales of one slice for columns that do not share one. A wave loads each of them once and passes them on in
// shared memory: loaded by those who need them they would be eight times as many.
template <class Problem>
struct HopperGemmColumnScales {
  static constexpr HopperGemmTile kTile = Problem::kTile;
  static constexpr int kLoads = (kTile.n + 63) / 64;
  float pairs[kLoads][2];  // on their way
  float columns[kTile.n / 4];

  CAUSEWAY_INLINE void load(const Problem& problem, const HopperGemmPosition& tile, int slice) {
    const int k_block = tile.first_slice + (slice < tile.slices ? slice : tile.slices - 1);
#pragma clang loop unroll(full)
    for (int i = 0; i < kLoads; ++i) {
      const int column = tile.n + i * 64 + lane_index() * 2, n = static_cast<int>(problem.n);
      const float* scales = problem.b_scale(column < n ? column : 0, k_block);
      pairs[i][0] = scales[0];
      pairs[i][1] = scales[1];
    }
  }
  // `piece`: room for a float of each column, of this wave.
  CAUSEWAY_INLINE void pass_on(float* piece) {
    using Pair = Vector<float, 2>;
    wave_barrier();
#pragma clang loop unroll(full)
    for (int i = 0; i < kLoads; ++i)
      *reinterpret_cast<Pair*>(piece + i * 64 + lane_index() * 2) = Pair{pairs[i][0], pairs[i][1]};
    wave_barrier();
#pragma clang loop unroll(full)
    for (int i = 0; i < kTile.n / 4; i += 2) {
      const Pair pair = *reinterpret_cast<const Pair*>(piece + i * 4 + lane_index() % 4 * 2);
      columns[i] = pair[0];
      columns[i + 1] = pair[1];
    }
  }
  // Of sums[i].
  CAUSEWAY_INLINE float of(int i) const { return columns[i / 4 * 2 + i % 2]; }
};

// How many rounds of a piece fetch what their stores read before the first of them stores. Round by round, each would
// wait for memory by itself; more than these registers hold spill.
template <class Problem>
constexpr int hopper_gemm_rounds_together(int rounds) {
  if (kHopperGemmFewRegisters<Problem>) return rounds * Problem::kStoreLanes > 8 ? 8 / Problem::kStoreLanes : rounds;
  constexpr int kBytes = Problem::kTile.n > 128 ? 64 : 128;
  int together = rounds;
  while (together > 1 && together * static_cast<int>(sizeof(typename Problem::Fetched)) > kBytes) together /= 2;
  return together;
}

// Stores 64 x kColumns (64 or 32) of a warpgroup's sums, from row `m_first` and column `n_first` on. Each wave has 16
// rows of them, which pass through its own piece of shared memory; groups of eight columns are exchanged there so that
// no bank is met twice.
template <int kColumns, class Problem>
CAUSEWAY_INLINE void hopper_gemm_store_part(const Problem& problem, int64_t batch, int m_first, int n_first,
                                            const float* sums, float* piece) {
  constexpr int kLanesOut = Problem::kStoreLanes;
  constexpr int kInRow = kColumns / kLanesOut, kRounds = 16 * kInRow / 32;
  constexpr bool kSameColumns = 32 % kInRow == 0;  // of a lane, in every round
  const int m = static_cast<int>(problem.m), n = static_cast<int>(problem.n);
  constexpr bool kFewRegisters = kHopperGemmFewRegisters<Problem>;
  int lane = lane_index(), first_row = m_first + thread_index() % 128 / 32 * 16;
  if constexpr (kFewRegisters) {
    // So that addresses of other pieces are not kept.
    lane = computed_here(lane);
    first_row = computed_here(first_row);
  }
  // In round `round`: the lane's row and first column within the piece, and whether the result has them.
  const auto row_of = [&](int round) { return (round * 32 + lane) / kInRow; };
  const auto column_of = [&](int round) { return (round * 32 + lane) % kInRow * kLanesOut; };
  const auto is_inside = [&](int round) { return first_row + row_of(round) < m && n_first + column_of(round) < n; };
  const auto write_piece = [&] {
    wave_barrier();
#pragma clang loop unroll(full)
    for (int i = 0; i < kColumns / 2; i += 2) {
      const int row = lane / 4 + (i & 2) * 4;
      float* to = piece + row * 64 + ((i / 4) ^ (row % 8)) * 8 + lane % 4 * 2;
      to[0] = sums[i];
      to[1] = sums[i + 1];
    }
    wave_barrier();
  };
  typename Problem::FetchedColumns columns;
  if (kSameColumns && n_first + column_of(0) < n)
    problem.template fetch_columns<kLanesOut>(n_first + column_of(0), columns);
  const auto fetch = [&](int round, typename Problem::Fetched& fetched) {
    if (!is_inside(round)) return;
    const int64_t m_index = first_row + row_of(round), n_index = n_first + column_of(round);
    problem.template fetch<kLanesOut>(batch, m_index, n_index, fetched);
  };
  const auto store = [&](int round, const typename Problem::Fetched& fetched) {
    if (!is_inside(round)) return;
    const int row = row_of(round), column = column_of(round);
    const int64_t m_index = first_row + row, n_index = n_first + column;
    if (!kSameColumns) problem.template fetch_columns<kLanesOut>(n_index, columns);
    const float* from = piece + row * 64 + ((column / 8) ^ (row % 8)) * 8 + column % 8;
    float values[kLanesOut];
#pragma clang loop unroll(full)
    for (int e = 0; e < kLanesOut; ++e) values[e] = from[e];
    problem.store(batch, m_index, n_index, values, fetched, columns);
  };
  if constexpr (Problem::Fetched::kTensors > 0) {
    constexpr int kTogether = hopper_gemm_rounds_together<Problem>(kRounds);
    constexpr int kUnrolled = kFewRegisters ? 1 : kRounds / kTogether;
    // Written first, sums make room for what is fetched; otherwise memory need not wait for them.
    if (kFewRegisters) write_piece();
#pragma clang loop unroll_count(kUnrolled)
    for (int first = 0; first < kRounds; first += kTogether) {
      typename Problem::Fetched fetched[kTogether];
#pragma clang loop unroll(full)
      for (int i = 0; i < kTogether; ++i) fetch(first + i, fetched[i]);
      if (!kFewRegisters && first == 0) write_piece();
#pragma clang loop unroll(full)
      for (int i = 0; i < kTogether; ++i) store(first + i, fetched[i]);
    }
  } else {
    write_piece();
#pragma clang loop unroll(full)
    for (int round = 0; round < kRounds; ++round) store(round, {});
  }
}

// Where little is fetched together, it is brought into the cache while the tile is multiplied. `block`: the first 64
// rows of this warpgroup.
template <class Problem>
CAUSEWAY_INLINE void hopper_gemm_prefetch(const Problem& problem, const HopperGemmPosition& tile, int block) {
  constexpr HopperGemmTile kTile = Problem::kTile;
  constexpr bool kLittle = kHopperGemmSends<Problem>
                               ? kTile.results_in_stages || hopper_gemm_boxes(kTile) < kHopperGemmMostBoxes
                               : kHopperGemmFewRegisters<Problem>;
  if constexpr (kLittle && Problem::Fetched::kTensors > 0) {
    static_assert(hopper_gemm_row_blocks(kTile) <= 2, "a lane has a row");
    const int lane = lane_index();
    const int row = tile.m + (block + lane / 16) * 64 + thread_index() % 128 / 32 * 16 + lane % 16;
    const int left = static_cast<int>(problem.n) - tile.n, columns = left < kTile.n ? left : kTile.n;
    if (columns <= 0 || tile.split_tile >= 0 || lane / 16 >= hopper_gemm_row_blocks(kTile) ||
        row >= static_cast<int>(problem.m))
      return;
    problem.for_each_fetched(tile.batch, row, tile.n, [&](const auto* from) {
      constexpr int kSize = sizeof(*from);
      if constexpr (Problem::kStoreLanes * kSize % 16 == 0) prefetch_global(from, columns * kSize);
    });
  }
}

// Where the thread's first four of 64 x 64 sums of a part of k are in the workspace; the next four come 128 threads
// later, so that a wave writes and reads whole lines. `rows`, `columns`: which 64 of the tile.
template <class Problem>
CAUSEWAY_INLINE float* hopper_gemm_partial(const Problem& problem, int split, int split_tiles, int split_tile, int rows,
                                           int columns) {
  constexpr HopperGemmTile kTile = Problem::kTile;
  const int64_t tile = static_cast<int64_t>(split) * split_tiles + split_tile;
  return problem.workspace + (tile * (kTile.m / 64) + rows) * (64 * kTile.n) + columns * (64 * 64) +
         thread_index() % 128 * 4;
}

// Leaves 64 x kColumns of a warpgroup's sums of a part of k in the workspace.
template <int kColumns>
CAUSEWAY_INLINE void hopper_gemm_keep_part(const float* sums, float* to) {
#pragma clang loop unroll(full)
  for (int i = 0; i < kColumns / 2; ++i) to[i / 4 * 512 + i % 4] = sums[i];
}

// Stores a warpgroup's sums, from the tile's first_block'th 64 rows on.
template <class Problem, class Boxes>
CAUSEWAY_INLINE void hopper_gemm_store(
    const Problem& problem, const HopperGemmSchedule<Problem>& schedule, const HopperGemmPosition& tile, int rank,
    int first_block, const float (&sums)[hopper_gemm_row_blocks(Problem::kTile)][Problem::kTile.n / 2], float* piece,
    Boxes& boxes) {
  constexpr HopperGemmTile kTile = Problem::kTile;
  constexpr int kWhole = kTile.n / 64, kLast = kTile.n % 64;  // parts of 64 columns, then fewer
  constexpr int kRowBlocks = hopper_gemm_row_blocks(kTile);
  if constexpr (Problem::kSplits > 1) {
    if (tile.split_tile >= 0) {
#pragma clang loop unroll(full)
      for (int block = 0; block < kRowBlocks; ++block) {
        float* to = hopper_gemm_partial(problem, tile.split, schedule.split_tiles * hopper_gemm_cluster(kTile),
                                        tile.split_tile * hopper_gemm_cluster(kTile) + rank, first_block + block, 0);
#pragma clang loop unroll(full)
        for (int part = 0; part < kWhole; ++part)
          hopper_gemm_keep_part<64>(sums[block] + part * 32, to + part * (64 * 64));
        if constexpr (kLast > 0) hopper_gemm_keep_part<kLast>(sums[block] + kWhole * 32, to + kWhole * (64 * 64));
      }
      return;
    }
  }
  if constexpr (kHopperGemmSends<Problem>) {
    boxes.send(problem, tile, first_block, sums);
  } else {
#pragma clang loop unroll(full)
    for (int block = 0; block < kRowBlocks; ++block) {
      const int row = tile.m + (first_block + block) * 64;
#pragma clang loop unroll(full)
      for (int part = 0; part < kWhole; ++part)
        hopper_gemm_store_part<64>(problem, tile.batch, row, tile.n + part * 64, sums[block] + part * 32, piece);
      if constexpr (kLast > 0)
        hopper_gemm_store_part<kLast>(problem, tile.batch, row, tile.n + kWhole * 64, sums[block] + kWhole * 32, piece);
    }
  }
}

// Adds the parts' sums of 64 x kColumns elements in order and stores them.
template <int kColumns, class Problem>
CAUSEWAY_INLINE void hopper_gemm_combine_part(const Problem& problem, const HopperGemmSchedule<Problem>& schedule,
                                              int split_tile, int block, int part) {
  constexpr HopperGemmTile kTile = Problem::kTile;
  constexpr int kCluster = hopper_gemm_cluster(kTile);
  const HopperGemmPosition tile(schedule, schedule.whole + split_tile / kCluster, split_tile % kCluster);
  float sums[kColumns / 2] = {};
#pragma clang loop unroll_count(2)
  for (int split = 0; split < Problem::kSplits; ++split) {
    const float* from =
        hopper_gemm_partial(problem, split, schedule.split_tiles * hopper_gemm_cluster(kTile), split_tile, block, part);
#pragma clang loop unroll(full)
    for (int i = 0; i < kColumns / 2; ++i) sums[i] += from[i / 4 * 512 + i % 4];
  }
  hopper_gemm_store_part<kColumns>(problem, tile.batch, tile.m + block * 64, tile.n + part * 64, sums,
                                   reinterpret_cast<float*>(shared_memory() + wave_index() * kHopperGemmPieceBytes));
}

// The second launch of a GEMM whose k was split. A block of 128 threads has 64 x 64 elements of a tile that was
// split, or the fewer at the end of its columns.
template <class Problem>
CAUSEWAY_INLINE void hopper_gemm_combine(const Problem& problem, int task) {
  constexpr HopperGemmTile kTile = Problem::kTile;
  constexpr int kParts = hopper_gemm_pieces(kTile), kRowBlocks = kTile.m / 64, kLast = kTile.n % 64;
  const HopperGemmSchedule<Problem> schedule(problem);
  const int part = task % kParts, block = task / kParts % kRowBlocks, split_tile = task / kParts / kRowBlocks;
  if constexpr (kLast > 0) {
    if (part == kParts - 1) {
      hopper_gemm_combine_part<kLast>(problem, schedule, split_tile, block, part);
      return;
    }
  }
  hopper_gemm_combine_part<64>(problem, schedule, split_tile, block, part);
}

// A warpgroup's rows of a tile whose slices have scales, added up in `totals`. Two warpgroups begin their GEMMs in
// turns: while one adds up, the other's are under way. `next_scales`: of the tile's first slices. `piece`: the wave's.
template <class Problem, class Release>
CAUSEWAY_INLINE void hopper_gemm_multiply_blocks(
    const Problem& problem, const HopperGemmShared<Problem>& shared, const HopperGemmPosition& tile, int group,
    StageRing<Problem::kTile.stages>& ring, HopperGemmFourScales<Problem>& next_scales, float* piece,
    float (&totals)[hopper_gemm_row_blocks(Problem::kTile)][Problem::kTile.n / 2], Release&& release) {
  using Operand = typename Problem::Operand;
  using FourScales = HopperGemmFourScales<Problem>;
  constexpr HopperGemmTile kTile = Problem::kTile;
  constexpr int kDepth = kHopperGemmDepth, kBoxBytes = HopperGemmShared<Problem>::kBoxBytes;
  constexpr int kRowBlocks = hopper_gemm_row_blocks(kTile), kTurn = 1;
  constexpr bool kTurns = hopper_gemm_warpgroups(kTile) == 2;
  const int first_block = group * kRowBlocks;
  const uint64_t stage_0_a = shared.descriptor_a(first_block), stage_0_b = shared.descriptor_b();
  HopperGemmColumnScales<Problem> columns;
  if constexpr (!FourScales::kSharedColumns) {
    columns.load(problem, tile, 0);
    // The tile before leaves from the same room.
    if (kHopperGemmSends<Problem> && elects_lane()) tensor_store_wait<0>();
    wave_barrier();
  }
  barrier_wait(shared.full + ring.stage, ring.parity);
#pragma clang loop unroll(disable)
  for (int first = 0; first < tile.slices; first += 4) {
    // Loaded four slices ahead, in a loop around that of slices: within it, the assembler would move what it has just
    // loaded to where the next turn has it, and wait for it there.
    const FourScales scales = next_scales;
    next_scales.load(problem, tile, first_block, first + 4);
    const int left = tile.slices - first, count = left < 4 ? left : 4;
#pragma clang loop unroll(disable)
    for (int slice = 0; slice < count; ++slice) {
      const int stage = ring.stage;
      const uint64_t a = matrix_descriptor_at(stage_0_a, stage * hopper_gemm_stage_bytes(kTile));
      const uint64_t b = matrix_descriptor_at(stage_0_b, stage * hopper_gemm_stage_bytes(kTile));
#pragma clang loop unroll(full)
      for (int block = 0; block < kRowBlocks; ++block) {
        float sums[kTile.n / 2];
        if constexpr (kTurns) {
          if (group == 1) named_barrier(kTurn, 256);
        }
        warpgroup_fence();
#pragma clang loop unroll(full)
        for (int step = 0; step < kDepth / 16; ++step) {
          warpgroup_multiply_add<Operand, kTile.n, false, false>(sums,
                                                                 matrix_descriptor_at(a, block * kBoxBytes + step * 32),
                                                                 matrix_descriptor_at(b, step * 32), step > 0);
        }
        warpgroup_commit();
        if constexpr (kTurns) {
          if (group == 0) named_barrier(kTurn, 256);
        }
        if constexpr (!FourScales::kSharedColumns) {
          if (block == 0) {
            columns.pass_on(piece);
            // A slice ahead, into the registers that have just been read.
            columns.load(problem, tile, first + slice + 1);
          }
        }
        const float upper = scales.of(block * 2, slice), lower = scales.of(block * 2 + 1, slice);
        // The next slice is there before these GEMMs are, as a rule.
        if (block + 1 == kRowBlocks) {
          ring.advance();
          if (first + slice + 1 < tile.slices) barrier_wait(shared.full + ring.stage, ring.parity);
        }
        warpgroup_wait<0>();
        if (block + 1 == kRowBlocks) release(stage);
        // Before the registers are multiplied into again, though nothing but registers says so.
#pragma clang loop unroll(full)
        for (int i = 0; i < kTile.n / 2; ++i) sums[i] = computed_here(sums[i]);
#pragma clang loop unroll(full)
        for (int i = 0; i < kTile.n / 2; ++i) {
          const float factor = i / 2 % 2 == 0 ? upper : lower;
          float& total = totals[block][i];
          if constexpr (FourScales::kSharedColumns) {
            total = computed_here(total + sums[i] * factor);
          } else {
            total = computed_here(total + sums[i] * (factor * columns.of(i)));
          }
        }
      }
    }
  }
}

// Whether A has lines of floats side by side, which instructions take from registers alone.
template <class Problem>
constexpr bool kHopperGemmRegisters = sizeof(typename Problem::Operand) == 4 && !Problem::A::kContiguousInK;

// The GEMMs of a warpgroup's 64 rows of a tile, the tile's `first_block`'th, with A from registers: those of the
// next slice are loaded beside them.
template <class Problem, class Release>
CAUSEWAY_INLINE void hopper_gemm_multiply_registers(const HopperGemmShared<Problem>& shared,
                                                    const HopperGemmPosition& tile, int first_block,
                                                    StageRing<Problem::kTile.stages>& ring,
                                                    float (&sums)[1][Problem::kTile.n / 2], Release&& release) {
  using Operand = typename Problem::Operand;
  constexpr HopperGemmTile kTile = Problem::kTile;
  constexpr int kSteps = kHopperGemmDepth / 16, kLines = hopper_gemm_slice_k(sizeof(Operand));
  const int lane = lane_index(), first_line = first_block * 64 + thread_index() % 128 / 32 * 16 + lane / 4;
  const uint64_t stage_0_b = shared.descriptor_b();
  uint32_t a[kSteps][4], next[kSteps][4];
  const auto load = [&](uint32_t(&to)[kSteps][4]) {
    barrier_wait(shared.full + ring.stage, ring.parity);
    const char* lines = shared.stages + ring.stage * hopper_gemm_stage_bytes(kTile);
#pragma clang loop unroll(full)
    for (int step = 0; step < kSteps; ++step)
#pragma clang loop unroll(full)
      for (int i = 0; i < 4; ++i) {
        const int line = first_line + i % 2 * 8, k = lane % 4 + i / 2 * 4;  // of a step's 8
        const int piece = line % kLines / 4 ^ k;
        to[step][i] = *reinterpret_cast<const uint32_t*>(lines + line / kLines * (kLines * 128) + (step * 8 + k) * 128 +
                                                         piece * 16 + line % 4 * 4);
      }
  };
  load(a);
#pragma clang loop unroll(disable)
  for (int slice = 0; slice < tile.slices; ++slice) {
    const int stage = ring.stage;
    const uint64_t b = matrix_descriptor_at(stage_0_b, stage * hopper_gemm_stage_bytes(kTile));
    warpgroup_fence();
#pragma clang loop unroll(full)
    for (int step = 0; step < kSteps; ++step)
      warpgroup_multiply_add<Operand, kTile.n, false>(sums[0], a[step], matrix_descriptor_at(b, step * 32),
                                                      slice + step > 0);
    warpgroup_commit();
    ring.advance();
    if (slice + 1 < tile.slices) load(next);
    warpgroup_wait<0>();
    // What the wave's other lanes have loaded is read, too.
    wave_barrier();
    release(stage);
#pragma clang loop unroll(full)
    for (int step = 0; step < kSteps; ++step)
#pragma clang loop unroll(full)
      for (int i = 0; i < 4; ++i) a[step][i] = next[step][i];
  }
}

// Multiplies what hopper_gemm_load loads; one warpgroup, which has its share of the rows of each tile or, in turns,
// all rows of every second tile. Inlined, with what it calls, to one piece: GEMMs under way write the sums'
// registers, and the waits, releases and turns between them are ordered against one another.
template <class Problem>
CAUSEWAY_INLINE void hopper_gemm_multiply(const Problem& problem, const TensorMapBytes* maps, int rank, int group,
                                          const HopperGemmShared<Problem>& shared) {
  using Operand = typename Problem::Operand;
  constexpr HopperGemmTile kTile = Problem::kTile;
  constexpr int kDepth = kHopperGemmDepth, kBoxBytes = HopperGemmShared<Problem>::kBoxBytes;
  constexpr bool kATransposed = !Problem::A::kContiguousInK, kBTransposed = !Problem::B::kContiguousInK;
  static_assert(!kTile.ping_pong || Problem::kSplits == 1, "tiles of the other warpgroup have as many slices");
  const HopperGemmSchedule<Problem> schedule(problem);
  constexpr int kRowBlocks = hopper_gemm_row_blocks(kTile);
  const int first_block = kTile.ping_pong ? 0 : group * kRowBlocks;
  const uint64_t stage_0_a = shared.descriptor_a(first_block), stage_0_b = shared.descriptor_b();
  const int wave = wave_index() - 4;
  float* piece = reinterpret_cast<float*>(shared.pieces + wave * hopper_gemm_wave_bytes(kTile));
  auto boxes = [&] {
    if constexpr (kHopperGemmSends<Problem>) {
      using Boxes =
          typename ChooseType<kTile.transposed, HopperGemmTransposedBoxes<Problem>, HopperGemmBoxes<Problem>>::Type;
      return Boxes(maps, shared.pieces, shared.loaded, wave);
    } else {
      return 0;
    }
  }();
  StageRing<kTile.stages> ring;
  using Notes = HopperGemmNotes<Problem>;
  Notes notes;
  const int lane = lane_index();
  // Whether the block that is the lane's number loads into this one. Every wave hands stages back to those that do.
  const uint32_t loaders = hopper_gemm_sharers(kTile, false, rank) | hopper_gemm_sharers(kTile, true, rank);
  const bool loads_here = (loaders >> lane & 1) != 0;
  const auto arrive = [&](Mbarrier* barrier) {
    if constexpr (hopper_gemm_cluster(kTile) == 1) {
      if (lane == 0) barrier_arrive(barrier);
    } else {
      if (loads_here) barrier_arrive_in_block(barrier, lane);
    }
  };
  const auto release = [&](int stage) { arrive(shared.empty + stage); };
  // Read again where it is needed: sums leave few registers for it.
  const auto this_group = [] { return computed_here(thread_index()) / 128 - 1; };
  // The same for all lanes, as the compiler can see.
  const auto noted = [&] { return wave_shuffle(shared.notes[notes.at], 0); };
  if constexpr (kTile.ping_pong) {
    if (group == 1) {
      notes.advance(1);
      ring.skip(schedule.k_slices);
      named_barrier_arrive(1, 256);
    }
  }
  int index = noted();
  auto next_scales = [] {
    if constexpr (kHopperGemmScales<Problem>) {
      return HopperGemmFourScales<Problem>{};
    } else {
      return 0;
    }
  }();
  const auto load_scales = [&] {
    if constexpr (kHopperGemmScales<Problem>) {
      if (index >= 0) next_scales.load(problem, HopperGemmPosition(schedule, index, rank), first_block, 0);
    }
  };
  load_scales();
#pragma clang loop unroll(disable)
  for (;;) {
    // A stage's parity tells whether it is full only to those whom all stages before it were full for.
    if constexpr (kTile.ping_pong) {
      if (index != Notes::kNoneBefore) named_barrier(1 + this_group(), 256);
    }
    if (index < 0) break;
    const HopperGemmPosition tile(schedule, index, rank);
    hopper_gemm_prefetch(problem, tile, first_block);
    const auto begin_boxes = [&] {
      if constexpr (kHopperGemmSends<Problem>) {
        if (tile.split_tile < 0) boxes.begin(tile, first_block);
      }
    };
    // Slices, or scales of columns, pass through the same room.
    static_assert(!(kTile.results_in_stages && kHopperGemmColumnScales<Problem>));
    constexpr bool kBoxesLast = kTile.results_in_stages || kHopperGemmColumnScales<Problem>;
    if constexpr (!kBoxesLast) begin_boxes();
    constexpr int kSlicesPerSum = kHopperGemmSlicesPerSum<Operand>;
    static_assert(kSlicesPerSum == 0 || !kTile.ping_pong);
    static_assert(kSlicesPerSum == 0 || kHopperGemmScales<Problem> || kRowBlocks == 1);
    float sums[kRowBlocks][kTile.n / 2];
    float totals[kRowBlocks][kSlicesPerSum > 0 ? kTile.n / 2 : 1] = {};
    // The second warpgroup's first sum is of half as many slices, so that one multiplies while the other adds up.
    const int lead = kSlicesPerSum / 2 * group;
    int before = -1;  // the stage that GEMMs under way may still read
    if constexpr (kHopperGemmScales<Problem>) {
      hopper_gemm_multiply_blocks(problem, shared, tile, group, ring, next_scales, piece, totals, release);
    } else if constexpr (kHopperGemmRegisters<Problem>) {
      static_assert(kRowBlocks == 1 && !kTile.ping_pong);
      hopper_gemm_multiply_registers(shared, tile, first_block, ring, sums, release);
    } else {
#pragma clang loop unroll(disable)
      for (int slice = 0; slice < tile.slices; ++slice) {
        barrier_wait(shared.full + ring.stage, ring.parity);
        const uint64_t a = matrix_descriptor_at(stage_0_a, ring.stage * hopper_gemm_stage_bytes(kTile));
        const uint64_t b = matrix_descriptor_at(stage_0_b, ring.stage * hopper_gemm_stage_bytes(kTile));
        const auto ends_sum = [&](int before) {
          if constexpr (kSlicesPerSum > 0) {
            return (before + lead) % kSlicesPerSum == 0;
          } else {
            return false;
          }
        };
        const bool begins = slice == 0 || ends_sum(slice);
        warpgroup_fence();
#pragma clang loop unroll(full)
        for (int step = 0; step < kDepth / 16; ++step) {
          // The next 16 of k, 8 of floats: 32 bytes along lines, or 16 rows of 128 bytes.
          const int a_step = step * (kATransposed ? 16 * 128 : 32), b_step = step * (kBTransposed ? 16 * 128 : 32);
#pragma clang loop unroll(full)
          for (int block = 0; block < kRowBlocks; ++block)
            warpgroup_multiply_add<Operand, kTile.n, kATransposed, kBTransposed>(
                sums[block], matrix_descriptor_at(a, block * kBoxBytes + a_step), matrix_descriptor_at(b, b_step),
                !begins || step > 0);
        }
        warpgroup_commit();
        if constexpr (kSlicesPerSum > 0) {
          if (ends_sum(slice + 1) || slice + 1 == tile.slices) {
            warpgroup_wait<0>();
            if (before >= 0) release(before);
            release(ring.stage);
            before = -1;
            ring.advance();
#pragma clang loop unroll(full)
            for (int i = 0; i < kTile.n / 2; ++i) totals[0][i] += sums[0][i];
            continue;
          }
        }
        // The slice before has been read when only this one's GEMMs are under way.
        warpgroup_wait<1>();
        if (before >= 0) release(before);
        before = ring.stage;
        ring.advance();
      }
    }
    if constexpr (kTile.ping_pong) {
      named_barrier_arrive(2 - this_group(), 256);
      ring.skip(schedule.k_slices);
    }
    notes.advance(Notes::kStep);
    index = noted();
    load_scales();
    warpgroup_wait<0>();
    if (before >= 0) release(before);
    if constexpr (kTile.results_in_stages) named_barrier(3, hopper_gemm_warpgroups(kTile) * 128);
    if constexpr (kBoxesLast) begin_boxes();
    if constexpr (kSlicesPerSum > 0) {
      hopper_gemm_store(problem, schedule, tile, rank, first_block, totals, piece, boxes);
    } else {
      hopper_gemm_store(problem, schedule, tile, rank, first_block, sums, piece, boxes);
    }
    if constexpr (kTile.results_in_stages) {
      if (index >= 0) {
        if constexpr (kHopperGemmSends<Problem>) boxes.end();
        fence_async_shared();
        wave_barrier();
        arrive(shared.left);
      }
    }
  }
  if constexpr (kHopperGemmSends<Problem>) boxes.end();
}

// One block of a launch of any number, in whole clusters: each computes tiles until none is left. `counter` is what
// they take them from (take_task), their own alone while they run.
template <class Problem>
CAUSEWAY_INLINE void hopper_gemm_run(const Problem& problem, const TensorMapBytes* maps, uint32_t* counter) {
  constexpr HopperGemmTile kTile = Problem::kTile;
  constexpr int kGroups = hopper_gemm_warpgroups(kTile);
  static_assert(kTile.m % 64 == 0 && kTile.n % 16 == 0 && kTile.n <= 256);
  static_assert(sizeof(typename Problem::Operand) == 2 || Problem::B::kContiguousInK);
  static_assert(!kTile.b_along_k || Problem::B::kContiguousInK);
  static_assert(hopper_gemm_boxes(kTile) >= kHopperGemmBoxesOfPiece);
  // What a block loads is whole lines of a swizzle or, side by side, whole boxes.
  static_assert(hopper_gemm_cluster(kTile) <= 8);
  static_assert(kTile.cluster_n == 1 ||
                hopper_gemm_loaded_lines(kTile, false) % (Problem::A::kContiguousInK ? 8 : 64) == 0);
  static_assert(kTile.cluster_m == 1 ||
                hopper_gemm_loaded_lines(kTile, true) % (Problem::B::kContiguousInK ? 8 : 64) == 0);
  static_assert(hopper_gemm_shared_bytes(kTile) <= kHopperGemmMostShared);
  static_assert(!kTile.results_in_stages || !kTile.ping_pong);
  static_assert(!kTile.transposed || kHopperGemmSends<Problem>);
  const HopperGemmShared<Problem> shared;
  // One lane begins and loads, the same each time.
  int first = 0, second = 0;
  if (wave_index() == 0 && elects_lane()) {
    prefetch_tensor_map(&maps[0]);
    prefetch_tensor_map(&maps[1]);
    const HopperGemmSchedule<Problem> schedule(problem);
    first = hopper_gemm_take(schedule, counter, -1);
    if constexpr (kTile.ping_pong) second = hopper_gemm_take(schedule, counter, first);
    // Text is not in the cache yet: the less of it, the sooner all of it has come.
#pragma clang loop unroll(disable)
    for (int stage = 0; stage < kTile.stages; ++stage) {
      barrier_init(shared.full + stage, 1);
      barrier_init(shared.empty + stage, (kTile.ping_pong ? 1 : kGroups) * 4 * hopper_gemm_loaders(kTile));
    }
    if constexpr (kHopperGemmSends<Problem> && Problem::Fetched::kTensors > 0) {
#pragma clang loop unroll(disable)
      for (int box = 0; box < shared.kWaves * kHopperGemmMostBoxes; ++box) barrier_init(shared.loaded + box, 1);
    }
    if constexpr (kTile.results_in_stages) barrier_init(shared.left, shared.kWaves * hopper_gemm_loaders(kTile));
    barrier_init_fence();
    hopper_gemm_note(shared, schedule, 0, first, -1);
    if constexpr (kTile.ping_pong) hopper_gemm_note(shared, schedule, 1, second, first);
  }
  int rank = 0;
  block_barrier();
  if constexpr (hopper_gemm_cluster(kTile) > 1) {
    rank = cluster_rank();
    cluster_begin();
  }
  // The registers of the block, 168 for each thread of three warpgroups, 128 of four, go to those that multiply: all
  // that can be where they have most sums. In other tiles some of those that load would spill with 24.
  constexpr bool kManySums = kHopperGemmSums<Problem> > 192;
  constexpr int kLoading = kGroups == 3 ? 56 : kManySums ? 24 : 40;
  constexpr int kMultiplying = kGroups == 3 ? 152 : kManySums ? 240 : 232;
  if (thread_index() < 128) {
    if constexpr (kGroups > 1) registers_decrease<kLoading>();
    if (wave_index() == 0 && elects_lane()) hopper_gemm_load(problem, maps, counter, first, second, rank, shared);
  } else {
    if constexpr (kGroups > 1) registers_increase<kMultiplying>();
    // The same for all lanes, as the assembler can see: operands' descriptors are in uniform registers then.
    hopper_gemm_multiply(problem, maps, rank, wave_shuffle(thread_index() / 128, 0) - 1, shared);
  }
}
