// The matrix instructions of AMX (Intel's Architecture Instruction Set Extensions, "AMX"): eight registers of 16 rows
// of 64 bytes, and sums of products of bf16 pairs. For kernel text on x86-64 whose target has amx-bf16 (or for which
// CAUSEWAY_AMX is defined); what emulates it defines CAUSEWAY_MATRIX_TILES and the same functions beforehand.
//
//   begin_matrix_tiles(), end_matrix_tiles()       by the thread that uses registers, around their use
//   matrix_tile_zero<kTile>()
//   matrix_tile_load<kTile>(from, stride_bytes)    16 rows of 64 bytes
//   matrix_tile_store<kTile>(to, stride_bytes)
//   matrix_tile_multiply_pairs<kSum, kA, kB>()     sum[i, j] += the products of A's row i, 32 bf16, and of B's column
//   j,
//                                                  of which row p has the terms 2 p and 2 p + 1 of each column side by
//                                                  side; sums are floats. Subnormals count as zero
#pragma once

#include "causeway/kernels/types.h"

constexpr int kMatrixTileRows = 16;
constexpr int kMatrixTileWords = 16;  // of 32 bits, in a row

#if !defined(CAUSEWAY_MATRIX_TILES) && (defined(CAUSEWAY_AMX) || (defined(__AMX_TILE__) && defined(__AMX_BF16__)))
#define CAUSEWAY_MATRIX_TILES

CAUSEWAY_INLINE void begin_matrix_tiles() {
  struct alignas(64) Configuration {
    uint8_t palette = 1, first_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  };
  const Configuration configuration;
  __builtin_ia32_tile_loadconfig(&configuration);
}
CAUSEWAY_INLINE void end_matrix_tiles() { __builtin_ia32_tilerelease(); }
template <int kTile>
CAUSEWAY_INLINE void matrix_tile_zero() {
  __builtin_ia32_tilezero(kTile);
}
template <int kTile>
CAUSEWAY_INLINE void matrix_tile_load(const void* from, int64_t stride_bytes) {
  __builtin_ia32_tileloadd64(kTile, from, static_cast<unsigned long>(stride_bytes));
}
template <int kTile>
CAUSEWAY_INLINE void matrix_tile_store(void* to, int64_t stride_bytes) {
  __builtin_ia32_tilestored64(kTile, to, static_cast<unsigned long>(stride_bytes));
}
template <int kSum, int kA, int kB>
CAUSEWAY_INLINE void matrix_tile_multiply_pairs() {
  __builtin_ia32_tdpbf16ps(kSum, kA, kB);
}
#endif

#ifdef CAUSEWAY_MATRIX_TILES
constexpr bool kHasMatrixTiles = true;
#else
constexpr bool kHasMatrixTiles = false;
#endif
