// The blocks of thin_matmul.h, for the kernel and for the host that launches it.
#pragma once

#include "causeway/kernels/types.h"

constexpr int kThinMatmulRows = 16;   // at most
constexpr int kThinMatmulSlice = 32;  // k that a wave multiplies at a time: whole sectors of memory

// As many waves share a multiprocessor, in blocks of at most so many bytes for 8 waves each: four of them fit the 228
// KiB of an H100's, with the 1 KiB that each takes beside what it asks for. They may be of different products.
constexpr int kThinMatmulWavesPerUnit = 32;
constexpr int kThinMatmulBlockBytes = 56 * 1024;

// A slice of 8 columns is 16 bytes for each lane of a wave.
constexpr int kThinMatmulPieceBytes = 512;
constexpr int thin_matmul_slice_bytes(int columns) { return columns / 8 * kThinMatmulPieceBytes; }

struct ThinMatmulTile {
  int columns = 16;  // 16 or 32
  int waves = 8;
  int parts = 1;  // of k, which the blocks of a cluster sum
  // Of shared memory that comes first, for rows of A that the block computes itself.
  int row_bytes = 0;

  constexpr bool operator==(const ThinMatmulTile&) const = default;
};

// Where a block computes A: the first bytes serve sums over the block, behind them lie the rows.
constexpr int kThinMatmulSumsOfRows = 256;
constexpr int64_t kThinMatmulMostRowBytes = 16 * 1024;
constexpr int64_t thin_matmul_row_bytes(int rows, int64_t k) { return kThinMatmulSumsOfRows + rows * k * 2; }

// Then come slices of B, and then what the cluster's other blocks have summed. Where slices were lie the waves' sums in
// the end, of which a row has so many elements.
constexpr int thin_matmul_stride(int columns) { return columns + 4; }
constexpr int thin_matmul_gathered_bytes(ThinMatmulTile tile, int rows) {
  return (tile.parts - 1) * rows * tile.columns * 4;
}
// Slices that are on their way to a wave at a time: all, if they fit.
constexpr int thin_matmul_slots(ThinMatmulTile tile, int rows, int64_t k) {
  const int room = kThinMatmulBlockBytes - tile.row_bytes - thin_matmul_gathered_bytes(tile, rows);
  const int64_t most = room / thin_matmul_slice_bytes(tile.columns), slices = k / tile.parts / kThinMatmulSlice;
  return static_cast<int>(slices <= most ? (slices + tile.waves - 1) / tile.waves : most / tile.waves);
}
constexpr int thin_matmul_slices_bytes(ThinMatmulTile tile, int rows, int64_t k) {
  const int64_t slots = int64_t{thin_matmul_slots(tile, rows, k)} * tile.waves;
  const int64_t slices = k / tile.parts / kThinMatmulSlice;
  const int64_t bytes = (slices < slots ? slices : slots) * thin_matmul_slice_bytes(tile.columns);
  const int64_t sums = int64_t{tile.waves} * rows * thin_matmul_stride(tile.columns) * 4;
  return static_cast<int>(bytes > sums ? bytes : sums);
}
constexpr int thin_matmul_shared_bytes(ThinMatmulTile tile, int rows, int64_t k) {
  return tile.row_bytes + thin_matmul_slices_bytes(tile, rows, k) + thin_matmul_gathered_bytes(tile, rows);
}
