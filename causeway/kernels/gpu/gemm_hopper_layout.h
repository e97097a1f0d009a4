// The tiles of Hopper's GEMM (gemm_hopper.h), as kernel text and the host that launches it both need them.
#pragma once

#include "causeway/kernels/types.h"

// One block of threads computes m x n elements of the result at a time; one warpgroup loads. Either the others share a
// tile, 64 x n for each (128 x n of 256 rows): cooperative; or two of them compute tiles of their own, ping-pong: one
// stores its results while the other multiplies. Operands are of two bytes, or floats that are rounded to tf32, of
// four, B along k.
struct HopperGemmTile {
  int m = 128;     // 64, 128 or, cooperative, 192 or 256: by one warpgroup, two, three or two
  int n = 256;     // a multiple of 16 up to 256, of 192 rows up to 192
  int stages = 4;  // slices of k in shared memory at once
  // A cluster's tiles, one above the other and side by side. Blocks whose tiles have the same rows each load a part of
  // those of A for all of them, blocks whose tiles have the same columns a part of those of B.
  int cluster_m = 1;
  bool ping_pong = false;
  bool b_along_k = false;  // where lines of B are contiguous in k, they need not be whole boxes
  // Results leave from where the tile's slices were, and the next tile's are loaded after that: more stages fit, which
  // is what counts where a block computes one tile.
  bool results_in_stages = false;
  int cluster_n = 1;
  // So many clusters' tiles one above the other come before those beside them; 0: as many as have about 2,048 rows.
  int rows_together = 0;
  // A and B are swapped: the GEMM is that of the transposes, C^T = B^T A^T: m, n, A and B of everything here are that
  // GEMM's, a tile's rows are columns of C. Rows come by 64, columns by 16: which of C's are which decides how well
  // tiles fit.
  bool swapped = false;

  constexpr bool operator==(const HopperGemmTile&) const = default;
};

constexpr int kHopperGemmDepth = 64;           // of a slice, of two bytes each: 128 bytes, the widest swizzle
constexpr int kHopperGemmMostShared = 232448;  // bytes that a block can have

// How much of k a slice is.
constexpr int hopper_gemm_slice_k(int operand_bytes) { return kHopperGemmDepth * 2 / operand_bytes; }

// Those that multiply, and how many 64 rows of a tile each of them has.
constexpr int hopper_gemm_warpgroups(const HopperGemmTile& tile) {
  return tile.ping_pong || tile.m == 256 ? 2 : tile.m / 64;
}
constexpr int hopper_gemm_row_blocks(const HopperGemmTile& tile) {
  return tile.m / 64 / (tile.ping_pong ? 1 : hopper_gemm_warpgroups(tile));
}
constexpr int hopper_gemm_threads(const HopperGemmTile& tile) { return (hopper_gemm_warpgroups(tile) + 1) * 128; }

// A cluster's blocks, at most 8. Block `rank` has the tile rank % cluster_m from above, rank / cluster_m from the left.
constexpr int hopper_gemm_cluster(const HopperGemmTile& tile) { return tile.cluster_m * tile.cluster_n; }
// Lines of A (m of the tile) or of B (n of the tile) that a block loads: where they run along k, by one transfer.
constexpr int hopper_gemm_loaded_lines(const HopperGemmTile& tile, bool is_b) {
  return is_b ? tile.n / tile.cluster_m : tile.m / tile.cluster_n;
}
// The blocks, a bit for each, that a block shares lines of A or of B with, itself among them.
constexpr uint32_t hopper_gemm_sharers(const HopperGemmTile& tile, bool is_b, int rank) {
  if (is_b) return ((1u << tile.cluster_m) - 1) << (rank / tile.cluster_m * tile.cluster_m);
  uint32_t first = 0;
  for (int i = 0; i < tile.cluster_n; ++i) first |= 1u << (i * tile.cluster_m);
  return first << (rank % tile.cluster_m);
}
// How many load into a block, itself among them: it has to hand its stages back to each of them.
constexpr int hopper_gemm_loaders(const HopperGemmTile& tile) { return tile.cluster_m + tile.cluster_n - 1; }
// Rows and columns of the tiles of a cluster.
constexpr int hopper_gemm_cluster_rows(const HopperGemmTile& tile) { return tile.m * tile.cluster_m; }
constexpr int hopper_gemm_cluster_columns(const HopperGemmTile& tile) { return tile.n * tile.cluster_n; }

// Which tiles come when, of `rows` of them above one another and `columns` beside: tile `index` of a matrix. They are
// counted down through groups of `together` rows, then along the columns.
struct HopperGemmPlace {
  int row, column;
};
constexpr HopperGemmPlace hopper_gemm_place(int index, int rows, int columns, int together) {
  const int group = index / (together * columns), in_group = index % (together * columns);
  const int rest = rows - group * together, rows_of_group = rest < together ? rest : together;
  return {group * together + in_group % rows_of_group, in_group / rows_of_group};
}

// Boxes of 64 lines where lines are contiguous, and pieces of 64 columns of results: the last may be narrower.
constexpr int hopper_gemm_pieces(const HopperGemmTile& tile) { return (tile.n + 63) / 64; }

// What a slice takes in shared memory. Where lines of B lie side by side, the last box is whole too, though part of it
// may be the next tile's.
constexpr int hopper_gemm_stage_bytes(const HopperGemmTile& tile) {
  return (tile.m + (tile.b_along_k ? tile.n : hopper_gemm_pieces(tile) * 64)) * kHopperGemmDepth * 2;
}

// Results leave through shared memory, up to 16 x 64 floats of each warp at a time.
constexpr int kHopperGemmPieceBytes = 16 * 64 * 4;
// Where TMA takes them, boxes of as many rows of C as a warp has of a tile, and of 128 bytes of columns;
// the last of a tile's columns make a box of their own, of fewer, where they do not fill one. Boxes of 32 bytes alone
// took up to a quarter longer (docs/log/gemm.md).
constexpr int kHopperGemmStoredRows = 16;
constexpr int kHopperGemmBoxLine = 128;
constexpr int kHopperGemmBoxBytes = kHopperGemmStoredRows * kHopperGemmBoxLine;
constexpr int kHopperGemmMostBoxes = 4;
constexpr int hopper_gemm_stored_columns(int element_bytes) { return kHopperGemmBoxLine / element_bytes; }
// 0 where all boxes are whole.
constexpr int hopper_gemm_last_stored_columns(const HopperGemmTile& tile, int element_bytes) {
  return (tile.swapped ? tile.m : tile.n) % hopper_gemm_stored_columns(element_bytes);
}

// Numbers of tiles, from those that warpgroups compute at the moment to those that the loading warpgroup has taken: as
// many as cannot be needed at once, of one slice each at least.
constexpr int hopper_gemm_queued_tiles(const HopperGemmTile& tile) { return tile.stages + 2; }

// Stages, an mbarrier for each of a warp's boxes, two for each stage and one for results that have left, the queue of
// tiles.
constexpr int hopper_gemm_waves(const HopperGemmTile& tile) { return hopper_gemm_warpgroups(tile) * 4; }
constexpr int hopper_gemm_pipeline_bytes(const HopperGemmTile& tile) {
  return tile.stages * (hopper_gemm_stage_bytes(tile) + 16) + hopper_gemm_waves(tile) * kHopperGemmMostBoxes * 8 + 8 +
         hopper_gemm_queued_tiles(tile) * 4;
}
// Boxes of a warp that there is room for: two at least, which make up a piece.
constexpr int kHopperGemmBoxesOfPiece = kHopperGemmPieceBytes / kHopperGemmBoxBytes;
constexpr int hopper_gemm_boxes(const HopperGemmTile& tile) {
  const int room = tile.results_in_stages ? tile.stages * hopper_gemm_stage_bytes(tile)
                                          : kHopperGemmMostShared - hopper_gemm_pipeline_bytes(tile);
  const int boxes = room / (hopper_gemm_waves(tile) * kHopperGemmBoxBytes);
  return boxes < kHopperGemmMostBoxes ? boxes : kHopperGemmMostBoxes;
}
// For two boxes of results and, beside each, one of half as many bytes of each of so many tensors.
constexpr int hopper_gemm_boxes_beside(int tensors) { return kHopperGemmBoxesOfPiece + tensors; }
// As many stages as leave room for so many boxes of each warp, up to 8.
constexpr int hopper_gemm_most_stages(HopperGemmTile tile, int boxes) {
  for (tile.stages = 8; tile.stages > 1; --tile.stages)
    if (hopper_gemm_boxes(tile) >= boxes) break;
  return tile.stages;
}
constexpr int kHopperGemmMostStages = 12;  // where results leave from them
// What suits a tile, but in few rounds: results that wait for a box hold up more than a fifth stage gains, and a fourth
// one more than a third box. With room for `least_boxes` at least.
constexpr int hopper_gemm_best_stages(HopperGemmTile tile, int least_boxes = kHopperGemmBoxesOfPiece) {
  if (tile.results_in_stages) {
    tile.stages = kHopperGemmMostStages;
    while (hopper_gemm_pipeline_bytes(tile) > kHopperGemmMostShared) --tile.stages;
    return tile.stages;
  }
  for (int boxes = kHopperGemmMostBoxes; boxes > least_boxes; --boxes)
    if (const int stages = hopper_gemm_most_stages(tile, boxes); stages >= 4) return stages;
  return hopper_gemm_most_stages(tile, least_boxes);
}
constexpr int hopper_gemm_wave_bytes(const HopperGemmTile& tile) {
  return hopper_gemm_boxes(tile) * kHopperGemmBoxBytes;
}

// The second launch of a GEMM whose k is split: threads of a block, and blocks of each tile that is split.
constexpr int kHopperGemmCombineThreads = 128;
constexpr int hopper_gemm_combine_blocks(const HopperGemmTile& tile) {
  return tile.m / 64 * hopper_gemm_pieces(tile) * hopper_gemm_cluster(tile);
}
constexpr int kHopperGemmCombineShared = kHopperGemmCombineThreads / 32 * kHopperGemmPieceBytes;

constexpr int hopper_gemm_shared_bytes(const HopperGemmTile& tile) {
  const int results = tile.results_in_stages ? 0 : hopper_gemm_waves(tile) * hopper_gemm_wave_bytes(tile);
  return hopper_gemm_pipeline_bytes(tile) + results;
}
