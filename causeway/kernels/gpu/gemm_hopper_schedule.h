// Which tiles of a GEMM on Hopper are computed when (gemm_hopper.h), for the Problem that gemm.h describes.
#pragma once

#include "causeway/kernels/gpu/gemm_hopper_layout.h"

// Which tiles are computed by a cluster at the same time. Clusters that run together share lines of A and of B, by the
// order of hopper_gemm_place(). Of a GEMM whose k is split the tiles from kWholeTiles on
// are: first come all of their first parts, then all of the second ones.
template <class Problem>
struct HopperGemmSchedule {
  static constexpr HopperGemmTile kTile = Problem::kTile;
  static constexpr int kRows = hopper_gemm_cluster_rows(kTile), kColumns = hopper_gemm_cluster_columns(kTile);
  static constexpr int kGroup = kTile.rows_together > 0 ? kTile.rows_together : 2048 / kRows;
  int rows_m, tiles_n;  // of clusters of tiles
  int whole, split_tiles, work;
  int k_slices, split_slices;

  CAUSEWAY_INLINE explicit HopperGemmSchedule(const Problem& problem) {
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
  CAUSEWAY_INLINE HopperGemmPosition(const HopperGemmSchedule<Problem>& schedule, int index, int rank) {
    using Schedule = HopperGemmSchedule<Problem>;
    // Known to the compiler, a division by a constant is a GEMM and a shift, and where sizes are fixed none is by a
    // variable.
    __builtin_assume(index >= 0);
    split = 0;
    split_tile = -1;
    if (Problem::kSplits > 1 && index >= schedule.whole) {
      split = (index - schedule.whole) / schedule.split_tiles;
      split_tile = (index - schedule.whole) % schedule.split_tiles;
      index = schedule.whole + split_tile;
    }
    const int in_matrix = index % (schedule.rows_m * schedule.tiles_n);
    batch = index / (schedule.rows_m * schedule.tiles_n);
    const HopperGemmPlace place = hopper_gemm_place(in_matrix, schedule.rows_m, schedule.tiles_n, Schedule::kGroup);
    constexpr HopperGemmTile kTile = Schedule::kTile;
    m = place.row * Schedule::kRows + rank % kTile.cluster_m * kTile.m;
    n = place.column * Schedule::kColumns + rank / kTile.cluster_m * kTile.n;
    first_slice = Problem::kSplits == 1 ? 0 : split * schedule.split_slices;
    const int left = schedule.k_slices - first_slice;
    slices = split_tile < 0 || left < schedule.split_slices ? left : schedule.split_slices;
  }
};
