// The persistent tile scheduler of GEMMs on Hopper (gemm_hopper.h), for the Problem of gemm_hopper_problem.h: which
// tiles there are in which order, which block takes which, and how the warp that loads tells those that multiply.
#pragma once

#include "causeway/kernels/gpu/gemm_hopper_layout.h"
#include "causeway/kernels/gpu/hopper.h"

// Whether blocks begin before earlier launches have ended, each with one tile or part of one, and load weights then.
template <class Problem>
constexpr bool kHopperGemmBeginsEarly = requires { Problem::kBeginsEarly; };

// Which tiles are computed by a cluster at the same time. Clusters that run together share lines of A and of B, by the
// order of hopper_gemm_place(). Of a GEMM whose k is split the tiles from kWholeTiles on
// are: first come all of their first parts, then all of the second ones.
template <class Problem>
struct HopperGemmTileScheduler {
  static constexpr HopperGemmTile kTile = Problem::kTile;
  static constexpr int kRows = hopper_gemm_cluster_rows(kTile), kColumns = hopper_gemm_cluster_columns(kTile);
  static constexpr int kGroup = kTile.rows_together > 0 ? kTile.rows_together : 2048 / kRows;
  int rows_m, tiles_n;  // of clusters of tiles
  int whole, split_tiles, work;
  int k_slices, split_slices;

  CAUSEWAY_INLINE explicit HopperGemmTileScheduler(const Problem& problem) {
    rows_m = (static_cast<int>(problem.m) + kRows - 1) / kRows;
    tiles_n = (static_cast<int>(problem.n) + kColumns - 1) / kColumns;
    const int tiles = rows_m * tiles_n * static_cast<int>(problem.batch);
    whole = Problem::kSplits == 1 ? tiles : Problem::kWholeTiles;
    split_tiles = tiles - whole;
    work = whole + split_tiles * Problem::kSplits;
    constexpr int kSliceK = hopper_gemm_slice_k(sizeof(typename Problem::Operand));
    const int slices = static_cast<int>((problem.k + kSliceK - 1) / kSliceK);
    k_slices = slices > 0 ? slices : 1;
    split_slices = (k_slices + Problem::kSplits - 1) / Problem::kSplits;
  }
};

struct HopperGemmPosition {
  int batch, m, n;        // m, n: the first element
  int split, split_tile;  // which part of which tile that is split; of a whole tile 0 and -1
  int first_slice, slices;

  template <class Problem>
  CAUSEWAY_INLINE HopperGemmPosition(const HopperGemmTileScheduler<Problem>& scheduler, int index, int rank) {
    using Scheduler = HopperGemmTileScheduler<Problem>;
    // Known to the compiler, a division by a constant is a multiplication and a shift, and where sizes are fixed none
    // is by a variable.
    __builtin_assume(index >= 0);
    split = 0;
    split_tile = -1;
    if (Problem::kSplits > 1 && index >= scheduler.whole) {
      split = (index - scheduler.whole) / scheduler.split_tiles;
      split_tile = (index - scheduler.whole) % scheduler.split_tiles;
      index = scheduler.whole + split_tile;
    }
    const int in_matrix = index % (scheduler.rows_m * scheduler.tiles_n);
    batch = index / (scheduler.rows_m * scheduler.tiles_n);
    const HopperGemmPlace place = hopper_gemm_place(in_matrix, scheduler.rows_m, scheduler.tiles_n, Scheduler::kGroup);
    constexpr HopperGemmTile kTile = Scheduler::kTile;
    m = place.row * Scheduler::kRows + rank % kTile.cluster_m * kTile.m;
    n = place.column * Scheduler::kColumns + rank / kTile.cluster_m * kTile.n;
    first_slice = Problem::kSplits == 1 ? 0 : split * scheduler.split_slices;
    const int left = scheduler.k_slices - first_slice;
    slices = split_tile < 0 || left < scheduler.split_slices ? left : scheduler.split_slices;
  }
};

// The numbers of the block's tiles, from the producer to the consumers: a ring in shared memory without barriers of its
// own. A warpgroup's next tile is in it before the full mbarrier of the last slice of the tile that it computes, so
// that who has waited for that slice reads it beside the last MMAs.
template <class Problem>
struct HopperGemmTileQueue {
  static constexpr HopperGemmTile kTile = Problem::kTile;
  static constexpr int kCount = hopper_gemm_queued_tiles(kTile);
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

// The block's tile after `before`, its first after -1; scheduler.work or more when none is left. One thread. Blocks of
// a cluster would have to agree: theirs are dealt out. So are those of blocks that begin early, when the counter may be
// another launch's, and tiles that are no more than blocks: a block that begins early would take a second one while
// another has none, and each would wait for the counter, which lies in memory.
template <class Problem>
CAUSEWAY_INLINE int hopper_gemm_next_tile(const HopperGemmTileScheduler<Problem>& scheduler, uint32_t* counter,
                                          int before) {
  constexpr int kCluster = hopper_gemm_cluster(Problem::kTile);
  if constexpr (kCluster > 1 || kHopperGemmBeginsEarly<Problem>) {
    return before < 0 ? block_index() / kCluster : before + block_count() / kCluster;
  } else {
    if (scheduler.work <= block_count()) return before < 0 ? block_index() : scheduler.work;
    return take_task(counter, scheduler.work, HopperGemmTileQueue<Problem>::kStep);
  }
}

// Puts number `index`, which the block took after `before`, into place `at` of the queue.
template <class Problem>
CAUSEWAY_INLINE void hopper_gemm_enqueue(int32_t* queue, const HopperGemmTileScheduler<Problem>& scheduler, int at,
                                         int index, int before) {
  using Queue = HopperGemmTileQueue<Problem>;
  queue[at] = index < scheduler.work ? index : before < scheduler.work ? Queue::kNone : Queue::kNoneBefore;
}
