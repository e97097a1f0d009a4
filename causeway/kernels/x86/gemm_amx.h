// The packed mainloop of GEMMs of bf16 by AMX's matrix registers (matrix_tiles.h), in tiles of 32 x 32, for the Problem
// of gemm.h: rows of A run along k, 16 words of each of them at a time, and zeros fill the last 16.
#pragma once

#include "causeway/kernels/x86/gemm.h"
#include "causeway/kernels/x86/matrix_tiles.h"

#ifdef CAUSEWAY_MATRIX_TILES
namespace gemm {

// One panel of A for matrix registers, whose rows each run along memory.
template <class P>
CAUSEWAY_INLINE void pack_rows_along(const Operand<P, true>& operand, int64_t row, int64_t rows, int64_t k,
                                     int64_t terms, int64_t steps, uint32_t* to) {
  constexpr int kWidth = Operand<P, true>::kWidth;
  constexpr int64_t kTerms = kMatrixTileWords * 2;
  using Term = typename Operand<P, true>::Term;
  for (int64_t i = 0; i < kWidth; ++i) {
#pragma clang loop unroll(disable)
    for (int64_t step = 0; step < steps; step += kMatrixTileWords) {
      const int64_t first_term = step * 2, left = gemm_min(kTerms, terms - first_term);
      // The processor looks ahead within a page, which the next row is beyond.
      if (i + 1 < rows) operand.prefetch_along(row + i + 1, k + first_term, kTerms);
      alignas(64) Term line[kTerms];
      if (i < rows && left == kTerms) {
#pragma clang loop vectorize(assume_safety)
        for (int64_t j = 0; j < kTerms; ++j) line[j] = operand.term(row + i, k + first_term + j);
      } else {
        const int64_t count = i < rows ? left : 0;
#pragma clang loop vectorize(disable) unroll(disable)
        for (int64_t j = 0; j < kTerms; ++j) line[j] = j < count ? operand.term(row + i, k + first_term + j) : Term();
      }
      __builtin_memcpy(to + step * kWidth + i * kMatrixTileWords, line, sizeof(line));
    }
  }
}

// The same where its rows lie side by side in memory: kLanes words of kLanes rows are transposed.
template <class P>
CAUSEWAY_INLINE void pack_rows_across(const Operand<P, true>& operand, int64_t row, int64_t rows, int64_t k,
                                      int64_t terms, int64_t steps, uint32_t* to) {
  constexpr int kWidth = Operand<P, true>::kWidth;
  for (int64_t step = 0; step < steps; step += kLanes) {
    for (int64_t t = 0; t < 2 * kLanes; ++t) {
      const int64_t ahead = (step + kLanes) * 2 + t;
      if (ahead < terms) operand.prefetch(row, gemm_min(kWidth, rows), k + ahead);
    }
    for (int64_t group = 0; group < kWidth; group += kLanes) {
      WordLanes words[kLanes];
#pragma clang loop unroll(disable)
      for (int64_t s = 0; s < kLanes; ++s) {
        alignas(64) uint32_t line[kLanes];
        const int64_t term = (step + s) * 2;
        if (term + 1 < terms && group + kLanes <= rows) {
#pragma clang loop vectorize(assume_safety) vectorize_width(kLanes)
          for (int64_t i = 0; i < kLanes; ++i) line[i] = operand.word(row + group + i, k + term);
        } else {
#pragma clang loop vectorize(disable) unroll(disable)
          for (int64_t i = 0; i < kLanes; ++i) {
            const bool exists = group + i < rows;
            const uint32_t low = exists && term < terms ? bf16_bits(operand.load(row + group + i, k + term)) : 0;
            const uint32_t high =
                exists && term + 1 < terms ? bf16_bits(operand.load(row + group + i, k + term + 1)) : 0;
            line[i] = low | high << 16;
          }
        }
        words[s] = load_lanes(line);
      }
      transpose_words<kLanes>(words);
      uint32_t* block = to + step / kMatrixTileWords * kMatrixTileWords * kWidth + step % kMatrixTileWords;
#pragma clang loop unroll(full)
      for (int i = 0; i < kLanes; ++i) store_lanes(block + (group + i) * kMatrixTileWords, words[i]);
    }
  }
}

// sums[32][32] (+)= a * b over `steps` words, a multiple of 16, for the first kTiles times 16 columns: in four
// registers, beside two of each operand.
template <int kTiles>
CAUSEWAY_INLINE void multiply_matrix_tile(const uint32_t* a, const uint32_t* b, int64_t steps, bool add, float* sums) {
  constexpr int kSide = 2 * kMatrixTileRows;
  constexpr int64_t kStride = kSide * 4;  // of sums, and of B's words of a step
  float* const lower = sums + kMatrixTileRows * kSide;
  if (add) {
    matrix_tile_load<0>(sums, kStride);
    matrix_tile_load<1>(lower, kStride);
    if constexpr (kTiles > 1) {
      matrix_tile_load<2>(sums + kMatrixTileWords, kStride);
      matrix_tile_load<3>(lower + kMatrixTileWords, kStride);
    }
  } else {
    matrix_tile_zero<0>();
    matrix_tile_zero<1>();
    if constexpr (kTiles > 1) {
      matrix_tile_zero<2>();
      matrix_tile_zero<3>();
    }
  }
#pragma clang loop unroll(disable)
  for (int64_t step = 0; step < steps; step += kMatrixTileWords) {
    const uint32_t* rows = a + step * kSide;
    matrix_tile_load<4>(rows, kMatrixTileWords * 4);
    matrix_tile_load<6>(b + step * kSide, kStride);
    matrix_tile_multiply_pairs<0, 4, 6>();
    matrix_tile_load<5>(rows + kMatrixTileRows * kMatrixTileWords, kMatrixTileWords * 4);
    matrix_tile_multiply_pairs<1, 5, 6>();
    if constexpr (kTiles > 1) {
      matrix_tile_load<7>(b + step * kSide + kMatrixTileWords, kStride);
      matrix_tile_multiply_pairs<2, 4, 7>();
      matrix_tile_multiply_pairs<3, 5, 7>();
    }
  }
  matrix_tile_store<0>(sums, kStride);
  matrix_tile_store<1>(lower, kStride);
  if constexpr (kTiles > 1) {
    matrix_tile_store<2>(sums + kMatrixTileWords, kStride);
    matrix_tile_store<3>(lower + kMatrixTileWords, kStride);
  }
}

template <class P>
struct Panels<P, true> {
  static constexpr int64_t kRows = 2 * kMatrixTileRows, kColumns = kRows;
  static constexpr bool kPacksRows = true;
  CAUSEWAY_INLINE static void begin() { begin_matrix_tiles(); }
  CAUSEWAY_INLINE static void end() { end_matrix_tiles(); }

  CAUSEWAY_INLINE static void pack_rows(const Operand<P, true>& operand, int64_t row, int64_t rows, int64_t k,
                                        int64_t terms, int64_t steps, uint32_t* to) {
    if constexpr (Operand<P, true>::kContiguousInK) {
      pack_rows_along(operand, row, rows, k, terms, steps, to);
    } else {
      pack_rows_across(operand, row, rows, k, terms, steps, to);
    }
  }

  // The first `columns` columns of a tile's sums of `steps` words.
  CAUSEWAY_INLINE static void multiply_columns(const uint32_t* a, const uint32_t* b, int64_t steps, bool add,
                                               int64_t columns, float* sums) {
    if (columns > kMatrixTileWords) {
      multiply_matrix_tile<2>(a, b, steps, add, sums);
    } else {
      multiply_matrix_tile<1>(a, b, steps, add, sums);
    }
  }

  // Slices of two panels that meet stay in the first cache level, that of B while it meets all of A's; sums stay in the
  // second one until `last`, when rows of several panels leave in one run: they lie pages apart.
  CAUSEWAY_INLINE static void multiply(const P& p, int64_t batch, int64_t m, int64_t rows, int64_t n, int64_t columns,
                                       const uint32_t* a, const uint32_t* b, int64_t steps, bool add, bool last,
                                       bool one_block, float* sums) {
    constexpr GemmBlocks kBlocks = P::kBlocks;
    constexpr int64_t kSlice = 128;  // words: 16 KiB of a panel
    for (int64_t first = 0; first < columns; first += kGemmColumnsTogether) {
      const int64_t end = gemm_min(first + kGemmColumnsTogether, columns);
      float* together = one_block ? sums : sums + first * kBlocks.m;
      for (int64_t j = first; j < end; j += kColumns) {
        for (int64_t step = 0; step == 0 || step < steps; step += kSlice) {
          for (int64_t i = 0; i < rows; i += kRows)
            multiply_columns(a + i * steps + step * kRows, b + j * steps + step * kColumns,
                             gemm_min(kSlice, steps - step), add || step > 0, gemm_min(kColumns, columns - j),
                             together + (j - first) * kBlocks.m + i * kColumns);
        }
      }
      if (!last) continue;
      for (int64_t i = 0; i < rows; ++i) {
        // What the next row's results are computed of.
        if constexpr (requires { p.prefetch_epilogue(batch, m, n); }) {
          for (int64_t j = first; i + 1 < rows && j < end; j += kColumns) p.prefetch_epilogue(batch, m + i + 1, n + j);
        }
        for (int64_t j = first; j < end; j += kColumns)
          store_tile(p, batch, m + i, 1, n + j, gemm_min(kColumns, columns - j),
                     together + (j - first) * kBlocks.m + i * kColumns);
      }
    }
  }
};

}  // namespace gemm
#endif
