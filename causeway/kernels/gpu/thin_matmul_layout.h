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

  constexpr bool operator==(const ThinMatmulTile&) const = default;
};

// A block's shared memory has a part for each wave: slices, and then its sums, of which a row has so many elements.
// Behind them lie the sums of the cluster's other blocks.
constexpr int thin_matmul_stride(int columns) { return columns + 4; }
constexpr int thin_matmul_gathered_bytes(ThinMatmulTile tile, int rows) {
  return (tile.parts - 1) * rows * tile.columns * 4;
}
// Slices that are on their way to a wave at a time.
constexpr int thin_matmul_slots(ThinMatmulTile tile, int rows, int64_t k) {
  const int room = kThinMatmulBlockBytes - thin_matmul_gathered_bytes(tile, rows);
  const int most = room / tile.waves / thin_matmul_slice_bytes(tile.columns);
  const int64_t slices = (k / tile.parts / kThinMatmulSlice + tile.waves - 1) / tile.waves;
  return slices < most ? static_cast<int>(slices) : most;
}
constexpr int thin_matmul_wave_bytes(ThinMatmulTile tile, int rows, int64_t k) {
  const int slices = thin_matmul_slots(tile, rows, k) * thin_matmul_slice_bytes(tile.columns);
  const int sums = rows * thin_matmul_stride(tile.columns) * 4;
  return slices > sums ? slices : sums;
}
constexpr int thin_matmul_shared_bytes(ThinMatmulTile tile, int rows, int64_t k) {
  return tile.waves * thin_matmul_wave_bytes(tile, rows, k) + thin_matmul_gathered_bytes(tile, rows);
}
