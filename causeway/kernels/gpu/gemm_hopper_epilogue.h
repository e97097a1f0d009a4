// Epilogues of GEMMs on Hopper (gemm_hopper.h): how a warpgroup's accumulators of a tile become results in memory, by
// TMA (gemm_hopper_tma_store.h) or otherwise, or, where k is split, parts of sums that a second launch adds up.
#pragma once

#include "causeway/kernels/gpu/gemm.h"
#include "causeway/kernels/gpu/gemm_hopper_problem.h"
#include "causeway/kernels/gpu/gemm_hopper_producer.h"
#include "causeway/kernels/gpu/gemm_hopper_tile_scheduler.h"
#include "causeway/kernels/gpu/gemm_hopper_tma_store.h"

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

// Stores 64 x kColumns (64 or 32) of a warpgroup's sums, from row `m_first` and column `n_first` on. Each warp has 16
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
  constexpr bool kLittle = kHopperGemmStoresByTma<Problem>
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
// later, so that a warp writes and reads whole lines. `rows`, `columns`: which 64 of the tile.
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

// Leaves a warpgroup's sums of a part of k, from the tile's first_block'th 64 rows on.
template <class Problem>
CAUSEWAY_INLINE void hopper_gemm_keep(
    const Problem& problem, const HopperGemmTileScheduler<Problem>& scheduler, const HopperGemmPosition& tile, int rank,
    int first_block, const float (&sums)[hopper_gemm_row_blocks(Problem::kTile)][Problem::kTile.n / 2]) {
  constexpr HopperGemmTile kTile = Problem::kTile;
  constexpr int kWhole = kTile.n / 64, kLast = kTile.n % 64;  // parts of 64 columns, then fewer
#pragma clang loop unroll(full)
  for (int block = 0; block < hopper_gemm_row_blocks(kTile); ++block) {
    float* to = hopper_gemm_partial(problem, tile.split, scheduler.split_tiles * hopper_gemm_cluster(kTile),
                                    tile.split_tile * hopper_gemm_cluster(kTile) + rank, first_block + block, 0);
#pragma clang loop unroll(full)
    for (int part = 0; part < kWhole; ++part) hopper_gemm_keep_part<64>(sums[block] + part * 32, to + part * (64 * 64));
    if constexpr (kLast > 0) hopper_gemm_keep_part<kLast>(sums[block] + kWhole * 32, to + kWhole * (64 * 64));
  }
}

// Stores through shared memory, which only exchanges elements among a warp's lanes.
template <class Problem>
class HopperGemmDirectEpilogue {
  static constexpr HopperGemmTile kTile = Problem::kTile;
  static constexpr int kRowBlocks = hopper_gemm_row_blocks(kTile);

 public:
  CAUSEWAY_INLINE HopperGemmDirectEpilogue(const TensorMapBytes*, const HopperGemmShared<Problem>&, int, float* piece)
      : piece_(piece) {}

  // `first_block`: the first 64 of the tile's rows that are this warpgroup's.
  CAUSEWAY_INLINE void begin(const HopperGemmPosition&, int) {}
  CAUSEWAY_INLINE void store(const Problem& problem, const HopperGemmPosition& tile, int first_block,
                             const float (&sums)[kRowBlocks][kTile.n / 2]) {
    constexpr int kWhole = kTile.n / 64, kLast = kTile.n % 64;  // parts of 64 columns, then fewer
#pragma clang loop unroll(full)
    for (int block = 0; block < kRowBlocks; ++block) {
      const int row = tile.m + (first_block + block) * 64;
#pragma clang loop unroll(full)
      for (int part = 0; part < kWhole; ++part)
        hopper_gemm_store_part<64>(problem, tile.batch, row, tile.n + part * 64, sums[block] + part * 32, piece_);
      if constexpr (kLast > 0)
        hopper_gemm_store_part<kLast>(problem, tile.batch, row, tile.n + kWhole * 64, sums[block] + kWhole * 32,
                                      piece_);
    }
  }
  // Shared memory may be written again, or the block end.
  CAUSEWAY_INLINE void end() const {}

 private:
  float* piece_;
};

// TMA stores, and loads what is read at the results' place.
template <class Problem>
class HopperGemmTmaEpilogue {
  static constexpr HopperGemmTile kTile = Problem::kTile;
  using Boxes =
      typename ChooseType<kTile.swapped, HopperGemmSwappedTmaStore<Problem>, HopperGemmTmaStore<Problem>>::Type;

 public:
  CAUSEWAY_INLINE HopperGemmTmaEpilogue(const TensorMapBytes* maps, const HopperGemmShared<Problem>& shared, int wave,
                                        float*)
      : boxes_(maps, shared.pieces, shared.loaded, wave) {}

  CAUSEWAY_INLINE void begin(const HopperGemmPosition& tile, int first_block) {
    if (tile.split_tile < 0) boxes_.begin(tile, first_block);
  }
  CAUSEWAY_INLINE void store(const Problem& problem, const HopperGemmPosition& tile, int first_block,
                             const float (&sums)[hopper_gemm_row_blocks(kTile)][kTile.n / 2]) {
    boxes_.store(problem, tile, first_block, sums);
  }
  CAUSEWAY_INLINE void end() const { boxes_.end(); }

 private:
  Boxes boxes_;
};

// Stores a warpgroup's sums, from the tile's first_block'th 64 rows on, or leaves those of a part of k.
template <class Problem, class Epilogue>
CAUSEWAY_INLINE void hopper_gemm_store(
    const Problem& problem, const HopperGemmTileScheduler<Problem>& scheduler, const HopperGemmPosition& tile, int rank,
    int first_block, const float (&sums)[hopper_gemm_row_blocks(Problem::kTile)][Problem::kTile.n / 2],
    Epilogue& epilogue) {
  if constexpr (Problem::kSplits > 1) {
    if (tile.split_tile >= 0) {
      hopper_gemm_keep(problem, scheduler, tile, rank, first_block, sums);
      return;
    }
  }
  epilogue.store(problem, tile, first_block, sums);
}

template <class Problem>
using HopperGemmEpilogueOf = typename ChooseType<kHopperGemmStoresByTma<Problem>, HopperGemmTmaEpilogue<Problem>,
                                                 HopperGemmDirectEpilogue<Problem>>::Type;

// Adds the parts' sums of 64 x kColumns elements in order and stores them.
template <int kColumns, class Problem>
CAUSEWAY_INLINE void hopper_gemm_combine_part(const Problem& problem, const HopperGemmTileScheduler<Problem>& scheduler,
                                              int split_tile, int block, int part) {
  constexpr HopperGemmTile kTile = Problem::kTile;
  constexpr int kCluster = hopper_gemm_cluster(kTile);
  const HopperGemmPosition tile(scheduler, scheduler.whole + split_tile / kCluster, split_tile % kCluster);
  float sums[kColumns / 2] = {};
#pragma clang loop unroll_count(2)
  for (int split = 0; split < Problem::kSplits; ++split) {
    const float* from = hopper_gemm_partial(problem, split, scheduler.split_tiles * hopper_gemm_cluster(kTile),
                                            split_tile, block, part);
#pragma clang loop unroll(full)
    for (int i = 0; i < kColumns / 2; ++i) sums[i] += from[i / 4 * 512 + i % 4];
  }
  hopper_gemm_store_part<kColumns>(problem, tile.batch, tile.m + block * 64, tile.n + part * 64, sums,
                                   reinterpret_cast<float*>(shared_memory() + wave_index() * kHopperGemmPieceBytes));
}

// The second launch of a GEMM whose k was split. A block of 128 threads has 64 x 64 elements of a tile that was
// split, or the fewer at the end of its columns.
template <HopperGemmProblem Problem>
CAUSEWAY_INLINE void hopper_gemm_combine(const Problem& problem, int task) {
  constexpr HopperGemmTile kTile = Problem::kTile;
  constexpr int kParts = hopper_gemm_pieces(kTile), kRowBlocks = kTile.m / 64, kLast = kTile.n % 64;
  const HopperGemmTileScheduler<Problem> scheduler(problem);
  const int part = task % kParts, block = task / kParts % kRowBlocks, split_tile = task / kParts / kRowBlocks;
  if constexpr (kLast > 0) {
    if (part == kParts - 1) {
      hopper_gemm_combine_part<kLast>(problem, scheduler, split_tile, block, part);
      return;
    }
  }
  hopper_gemm_combine_part<64>(problem, scheduler, split_tile, block, part);
}
