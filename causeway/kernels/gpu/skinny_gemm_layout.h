// The blocks of skinny_gemm.h, for the kernel and for the host that launches it.
#pragma once

#include "causeway/kernels/types.h"

constexpr int kSkinnyGemmRows = 16;   // at most
constexpr int kSkinnyGemmSlice = 32;  // k that a wave multiplies at a time: whole sectors of memory

// As many waves share a multiprocessor, in blocks of at most so many bytes for 8 waves each: four of them fit the 228
// KiB of an H100's, with the 1 KiB that each takes beside what it asks for. They may be of different GEMMs.
constexpr int kSkinnyGemmWavesPerUnit = 32;
constexpr int kSkinnyGemmBlockBytes = 56 * 1024;

// A slice of 8 columns is 16 bytes for each lane of a wave.
constexpr int kSkinnyGemmPieceBytes = 512;
constexpr int skinny_gemm_slice_bytes(int columns) { return columns / 8 * kSkinnyGemmPieceBytes; }

struct SkinnyGemmTile {
  int columns = 16;  // 16 or 32
  int waves = 8;
  int parts = 1;  // of k, which the blocks of a cluster sum
  // Of shared memory that comes first, for rows of A that the block computes itself.
  int row_bytes = 0;

  constexpr bool operator==(const SkinnyGemmTile&) const = default;
};

// Where a block computes A: the first bytes serve sums over the block, behind them lie the rows.
constexpr int kSkinnyGemmSumsOfRows = 256;
constexpr int64_t kSkinnyGemmMostRowBytes = 16 * 1024;
constexpr int64_t skinny_gemm_row_bytes(int rows, int64_t k) { return kSkinnyGemmSumsOfRows + rows * k * 2; }

// Then come slices of B, and then what the cluster's other blocks have summed. Where slices were lie the waves' sums in
// the end, of which a row has so many elements.
constexpr int skinny_gemm_stride(int columns) { return columns + 4; }
constexpr int skinny_gemm_gathered_bytes(SkinnyGemmTile tile, int rows) {
  return (tile.parts - 1) * rows * tile.columns * 4;
}
// Slices that are on their way to a wave at a time: all, if they fit.
constexpr int skinny_gemm_slots(SkinnyGemmTile tile, int rows, int64_t k) {
  const int room = kSkinnyGemmBlockBytes - tile.row_bytes - skinny_gemm_gathered_bytes(tile, rows);
  const int64_t most = room / skinny_gemm_slice_bytes(tile.columns), slices = k / tile.parts / kSkinnyGemmSlice;
  return static_cast<int>(slices <= most ? (slices + tile.waves - 1) / tile.waves : most / tile.waves);
}
constexpr int skinny_gemm_slices_bytes(SkinnyGemmTile tile, int rows, int64_t k) {
  const int64_t slots = int64_t{skinny_gemm_slots(tile, rows, k)} * tile.waves;
  const int64_t slices = k / tile.parts / kSkinnyGemmSlice;
  const int64_t bytes = (slices < slots ? slices : slots) * skinny_gemm_slice_bytes(tile.columns);
  const int64_t sums = int64_t{tile.waves} * rows * skinny_gemm_stride(tile.columns) * 4;
  return static_cast<int>(bytes > sums ? bytes : sums);
}
constexpr int skinny_gemm_shared_bytes(SkinnyGemmTile tile, int rows, int64_t k) {
  return tile.row_bytes + skinny_gemm_slices_bytes(tile, rows, k) + skinny_gemm_gathered_bytes(tile, rows);
}
