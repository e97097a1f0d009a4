// The tiles of GPU gemms, as kernel text and the host that launches it both need them.
#pragma once

#include "causeway/kernels/types.h"

// One block of threads computes kM x kN elements of the result, kK of k at a time; one wave of it wave_m x wave_n.
struct GpuGemmTile {
  int m = 128;
  int n = 128;
  int k = 32;
  int wave_m = 64;
  int wave_n = 64;
  int stages = 3;           // slices of k in shared memory at once; 1: the next slice waits in registers alone
  int blocks_per_unit = 1;  // that a multiprocessor is to hold at once
  bool ping_pong = false;   // of gemm_cdna.h: two rows of waves alternate

  constexpr bool operator==(const GpuGemmTile&) const = default;
};

// Elements between lines of an operand's slice in shared memory: 16 bytes more than the line, which spreads eight
// neighbouring lines over all banks.
constexpr int gpu_gemm_stride(int line, int element_bytes) { return line + 16 / element_bytes; }

// Bytes of one operand's slice. `k_major`: lines run along k.
constexpr int gpu_gemm_slice_bytes(int lines, int k, bool k_major, int element_bytes) {
  return (k_major ? lines * gpu_gemm_stride(k, element_bytes) : k * gpu_gemm_stride(lines, element_bytes)) *
         element_bytes;
}

// Results leave through shared memory in strips of this many rows for each wave.
constexpr int kGpuGemmStripRows = 16;
constexpr int gpu_gemm_strip_stride(int wave_n) { return wave_n + 8; }

constexpr int gpu_gemm_waves(const GpuGemmTile& tile) { return tile.m / tile.wave_m * (tile.n / tile.wave_n); }

constexpr int gpu_gemm_shared_bytes(const GpuGemmTile& tile, bool a_k_major, bool b_k_major, int element_bytes) {
  // Lines of ping-pong tiles are exchanged and not padded.
  const int slices =
      tile.stages * (tile.ping_pong ? (tile.m + tile.n) * tile.k * element_bytes
                                    : gpu_gemm_slice_bytes(tile.m, tile.k, a_k_major, element_bytes) +
                                          gpu_gemm_slice_bytes(tile.n, tile.k, b_k_major, element_bytes));
  const int strips = gpu_gemm_waves(tile) * kGpuGemmStripRows * gpu_gemm_strip_stride(tile.wave_n) * 4;
  return slices > strips ? slices : strips;
}

// The elements of k that each of `splits` sums over, a multiple of the tile's k.
constexpr int64_t gpu_gemm_split_k(int64_t k, int splits, int tile_k) {
  const int64_t each = (k + splits - 1) / splits;
  return (each + tile_k - 1) / tile_k * tile_k;
}

constexpr int kGpuGemmCombineThreads = 256;
