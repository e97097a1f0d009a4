// C[batch, m, n] = sum over k of A[batch, m, k] * B[batch, k, n], with what comes before and after fused into it.
//
// The problem is a type P that the code generator writes for one gemm (members may be static constexpr):
//   using Operand = bf16 or float;      operands are rounded to it; GEMMs are summed in f32
//   int64_t batch, m, n, k;
//   static constexpr bool kAContiguousInK, kBContiguousInN;   the axis along which consecutive load_* lie side by side
//   static constexpr GemmBlocks kBlocks;                    chosen by codegen/x86/gemm_geometry.h
//   float load_a(int64_t batch, int64_t m, int64_t k) const;  the prologues: any inlined expression
//   float load_b(int64_t batch, int64_t k, int64_t n) const;
//   void store(int64_t batch, int64_t m, int64_t n, float value) const;  the epilogue, called once for each element
//   void* workspace;                    gemm_workspace_bytes, 64-byte aligned; unused by the skinny paths
// and, for an operand whose elements are each computed from one in memory, optionally:
//   void prefetch_a(int64_t batch, int64_t m, int64_t k) const;  __builtin_prefetch of the address that load_a reads;
//   void prefetch_b(int64_t batch, int64_t k, int64_t n) const;  may be asked for a little beyond the operand's end
//   static constexpr int64_t kALine, kBLine;                     elements of 64 bytes there
//   void prefetch_epilogue(int64_t batch, int64_t m, int64_t n) const;  what store reads of a tile's columns
// Skinny paths, which stream an operand once, want it in the second cache level: terms of k often lie a multiple of 4
// KiB apart, and of those the first level holds as many as are summed at a time. Packing for matrix registers wants
// what it reads next there, too: rows that lie pages apart.
// Stores to different elements must not depend on each other, since the loops over them are vectorised along n (along m
// for kSkinnySwapped); a load must not read what a store of the same launch writes.
//
// Phase 1 is gemm_pack for tasks 0..gemm_pack_tasks-1, phase 2, after it, gemm_run for 0..gemm_run_tasks-1.
// Each sum runs over k in one fixed order: its bits depend on neither the order of tasks nor on how many threads run
// them.
//
// The packed paths follow Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008), with
// register tiles of 8 x 48 (AVX-512), 4 x 24 (AVX2) or 4 x 12, and of 32 x 32 with matrix registers. A packed operand
// is a list of panels, each as wide as the tile: for each word of k, the panel's rows (or columns) side by side; a word
// is a float or two bf16 along k. For matrix registers the rows of A run along k instead, 16 words of each of them at a
// time, and zeros fill the last 16.
#pragma once

#include "causeway/kernels/types.h"
#include "causeway/kernels/x86/gemm_layout.h"
#include "causeway/kernels/x86/matrix_tiles.h"
#include "causeway/kernels/x86/simd.h"

namespace gemm {

constexpr int kTileRows = CAUSEWAY_X86_LEVEL >= 2 ? 8 : 4;
constexpr int kTileVectors = 3;
constexpr int kTileColumns = kTileVectors * kLanes;

template <class T>
inline constexpr bool kIsBf16 = false;
template <>
inline constexpr bool kIsBf16<bf16> = true;

template <class P>
inline constexpr bool kMatrixTiles = P::kBlocks.matrix_tiles;

template <class P>
inline constexpr bool kPairs = kIsBf16<typename P::Operand> && (kHasPairDot || kMatrixTiles<P>);

// Terms of k in a word.
template <class P>
inline constexpr int kDepth = kPairs<P> ? 2 : 1;

template <class P>
CAUSEWAY_INLINE float round_operand(float value) {
  if constexpr (kIsBf16<typename P::Operand>) {
    return float_from_bits(bf16_bits(value) << 16);
  } else {
    return value;
  }
}

template <bool kPaired>
struct PackedTerm {
  using Type = uint32_t;
};
template <>
struct PackedTerm<true> {
  using Type = uint16_t;
};

// The operand to pack, seen as rows of terms along k: the rows of A, or the columns of B.
template <class P, bool kIsA>
struct Operand {
  static constexpr bool kContiguousInK = kIsA ? P::kAContiguousInK : !P::kBContiguousInN;
  static constexpr int kWidth = kIsA ? P::kBlocks.tile_rows : P::kBlocks.tile_columns;

  const P& p;
  int64_t batch;

  CAUSEWAY_INLINE float load(int64_t row, int64_t k) const {
    if constexpr (kIsA) {
      return p.load_a(batch, row, k);
    } else {
      return p.load_b(batch, k, row);
    }
  }

  // As it is packed: a float's bits, rounded to the operand type, or a bf16.
  using Term = typename PackedTerm<kPairs<P>>::Type;
  CAUSEWAY_INLINE Term term(int64_t row, int64_t k) const {
    if constexpr (kPairs<P>) {
      return static_cast<Term>(bf16_bits(load(row, k)));
    } else {
      return bits_from_float(round_operand<P>(load(row, k)));
    }
  }
  CAUSEWAY_INLINE uint32_t word(int64_t row, int64_t k) const {
    if constexpr (kPairs<P>) {
      return bf16_bits(load(row, k)) | bf16_bits(load(row, k + 1)) << 16;
    } else {
      return term(row, k);
    }
  }

  // Of rows that lie side by side in memory: their terms lie a whole row of the matrix apart, further than the
  // processor looks ahead by itself. They need not begin where a line does.
  CAUSEWAY_INLINE void prefetch(int64_t row, int64_t rows, int64_t k) const {
    if constexpr (kIsA && requires { p.prefetch_a(batch, row, k); }) {
      for (int64_t i = 0; i < rows; i += P::kALine) p.prefetch_a(batch, row + i, k);
      p.prefetch_a(batch, row + rows - 1, k);
    } else if constexpr (!kIsA && requires { p.prefetch_b(batch, k, row); }) {
      for (int64_t i = 0; i < rows; i += P::kBLine) p.prefetch_b(batch, k, row + i);
      p.prefetch_b(batch, k, row + rows - 1);
    }
  }
  // Of a row of A that runs along memory: so many terms.
  CAUSEWAY_INLINE void prefetch_along(int64_t row, int64_t k, int64_t terms) const {
    if constexpr (requires { p.prefetch_a(batch, row, k); }) {
      for (int64_t i = 0; i < terms; i += P::kALine) p.prefetch_a(batch, row, k + i);
    }
  }
};

// One panel whose rows lie side by side in memory: words come out in the order they are read.
template <class P, bool kIsA>
CAUSEWAY_INLINE void pack_across(const Operand<P, kIsA>& operand, int64_t row, int64_t rows, int64_t k, int64_t terms,
                                 int64_t step, uint32_t* to) {
  constexpr int kWidth = Operand<P, kIsA>::kWidth;
  int64_t at = k + step * kDepth<P>;
  if (kMatrixTiles<P> && at >= k + terms) {
    for (int64_t i = 0; i < kWidth; ++i) to[i] = 0;
  } else if (kPairs<P> && at + 1 == k + terms) {
#pragma clang loop vectorize(disable) unroll(disable)
    for (int64_t i = 0; i < kWidth; ++i) to[i] = i < rows ? bf16_bits(operand.load(row + i, at)) : 0;
  } else if (rows == kWidth) {
#pragma clang loop vectorize(assume_safety) vectorize_width(kWidth < kLanes ? kWidth : kLanes)
    for (int64_t i = 0; i < kWidth; ++i) to[i] = operand.word(row + i, at);
  } else {
#pragma clang loop vectorize(assume_safety) vectorize_width(kLanes) interleave(disable)
    for (int64_t i = 0; i < rows; ++i) to[i] = operand.word(row + i, at);
    for (int64_t i = rows; i < kWidth; ++i) to[i] = 0;
  }
}

// One panel whose rows each run along memory: read kLanes words of every row, then transpose.
template <class P, bool kIsA>
CAUSEWAY_INLINE void pack_along(const Operand<P, kIsA>& operand, int64_t row, int64_t rows, int64_t k, int64_t terms,
                                int64_t steps, uint32_t* to) {
  constexpr int kWidth = Operand<P, kIsA>::kWidth;
  constexpr int kRows = kWidth < kLanes ? kWidth : kLanes;
  constexpr int kTerms = kLanes * kDepth<P>;
  using Term = typename Operand<P, kIsA>::Term;
  for (int64_t step = 0; step < steps; step += kLanes) {
    int64_t first_term = step * kDepth<P>;
    int64_t term_count = gemm_min(kTerms, terms - first_term);
    for (int64_t group = 0; group < kWidth; group += kRows) {
      alignas(64) Term gathered[kRows][kTerms];
#pragma clang loop unroll(disable)
      for (int64_t i = 0; i < kRows; ++i) {
        Term* line = gathered[i];
        if (group + i < rows && term_count == kTerms) {
#pragma clang loop vectorize(assume_safety) vectorize_width(kLanes)
          for (int64_t j = 0; j < kTerms; ++j) line[j] = operand.term(row + group + i, k + first_term + j);
        } else {
          int64_t count = group + i < rows ? term_count : 0;
#pragma clang loop vectorize(disable) unroll(disable)
          for (int64_t j = 0; j < kTerms; ++j)
            line[j] = j < count ? operand.term(row + group + i, k + first_term + j) : Term();
        }
      }
      WordLanes words[kRows];
#pragma clang loop unroll(full)
      for (int i = 0; i < kRows; ++i) __builtin_memcpy(&words[i], gathered[i], sizeof(WordLanes));
      transpose_words<kRows>(words);
      uint32_t* target = to + step * kWidth + group;
      if (step + kLanes <= steps) {
#pragma clang loop unroll(full)
        for (int i = 0; i < kRows; ++i) {
          // With a panel as narrow as kRows, one vector is several steps, and they follow each other.
          store_lanes(target + (kRows == kLanes ? i * kWidth : i * kLanes), words[i]);
        }
      } else {
        alignas(64) uint32_t transposed[kRows * kLanes];
        for (int i = 0; i < kRows; ++i) store_lanes(transposed + i * kLanes, words[i]);
        for (int64_t s = 0; s < steps - step; ++s) {
          for (int64_t i = 0; i < kRows; ++i) target[s * kWidth + i] = transposed[s * kRows + i];
        }
      }
    }
  }
}

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

// Packs rows [row, row + rows) and terms [k, k + terms) as panels, one after the other.
template <class P, bool kIsA>
CAUSEWAY_INLINE void pack(const Operand<P, kIsA>& operand, int64_t row, int64_t rows, int64_t k, int64_t terms,
                          uint32_t* to) {
  constexpr int kWidth = Operand<P, kIsA>::kWidth;
  int64_t steps = gemm_words(P::kBlocks, terms);
  if constexpr (kIsA && kMatrixTiles<P>) {
    for (int64_t first = 0; first < rows; first += kWidth) {
      const int64_t some = gemm_min(kWidth, rows - first);
      if constexpr (Operand<P, kIsA>::kContiguousInK) {
        pack_rows_along(operand, row + first, some, k, terms, steps, to + first * steps);
      } else {
        pack_rows_across(operand, row + first, some, k, terms, steps, to + first * steps);
      }
    }
  } else if constexpr (Operand<P, kIsA>::kContiguousInK) {
    for (int64_t first = 0; first < rows; first += kWidth) {
      pack_along(operand, row + first, gemm_min(kWidth, rows - first), k, terms, steps, to + first * steps);
    }
  } else {
    // Several panels at a time, for longer reads; not so many that the panels' lines evict each other.
    constexpr int64_t kTogether = kWidth * 4;
    constexpr int64_t kPrefetchSteps = 8;
    for (int64_t group = 0; group < rows; group += kTogether) {
      int64_t group_end = gemm_min(rows, group + kTogether);
      for (int64_t step = 0; step < steps; ++step) {
        int64_t ahead = (step + kPrefetchSteps) * kDepth<P>;
        if (ahead < terms) {
          for (int t = 0; t < kDepth<P>; ++t) operand.prefetch(row + group, group_end - group, k + ahead + t);
        }
        for (int64_t first = group; first < group_end; first += kWidth) {
          pack_across(operand, row + first, gemm_min(kWidth, rows - first), k, terms, step,
                      to + first * steps + step * kWidth);
        }
      }
    }
  }
}

// sums[kTileRows][kTileColumns] (+)= a * b over `steps` words, for the first kVectors vectors of the columns.
template <bool kPaired, int kVectors>
CAUSEWAY_INLINE void multiply_tile(const uint32_t* a, const uint32_t* b, int64_t steps, bool add, float* sums) {
  if (add) {
#pragma clang loop unroll(full)
    for (int i = 0; i < kTileRows; ++i) {
#pragma clang loop unroll(full)
      for (int j = 0; j < kVectors; ++j) __builtin_prefetch(sums + i * kTileColumns + j * kLanes, 1);
    }
  }
  FloatLanes tile[kTileRows][kVectors] = {};
#pragma clang loop unroll_count(2)
  for (int64_t step = 0; step < steps; ++step) {
    WordLanes columns[kVectors];
#pragma clang loop unroll(full)
    for (int j = 0; j < kVectors; ++j) columns[j] = load_lanes(b + step * kTileColumns + j * kLanes);
#pragma clang loop unroll(full)
    for (int i = 0; i < kTileRows; ++i) {
      WordLanes row = WordLanes(a[step * kTileRows + i]);
#pragma clang loop unroll(full)
      for (int j = 0; j < kVectors; ++j) {
        if constexpr (kPaired) {
          tile[i][j] = accumulate_pairs(row, columns[j], tile[i][j]);
        } else {
          tile[i][j] =
              multiply_add(__builtin_bit_cast(FloatLanes, row), __builtin_bit_cast(FloatLanes, columns[j]), tile[i][j]);
        }
      }
    }
  }
#pragma clang loop unroll(full)
  for (int i = 0; i < kTileRows; ++i) {
#pragma clang loop unroll(full)
    for (int j = 0; j < kVectors; ++j) {
      float* to = sums + i * kTileColumns + j * kLanes;
      if (add) tile[i][j] += load_lanes(to);
      store_lanes(to, tile[i][j]);
    }
  }
}

#ifdef CAUSEWAY_MATRIX_TILES
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
#endif

// The first `columns` columns of a tile's sums of `steps` words.
template <class P>
CAUSEWAY_INLINE void multiply_columns(const uint32_t* a, const uint32_t* b, int64_t steps, bool add, int64_t columns,
                                      float* sums) {
  if constexpr (kMatrixTiles<P>) {
#ifdef CAUSEWAY_MATRIX_TILES
    if (columns > kMatrixTileWords) {
      multiply_matrix_tile<2>(a, b, steps, add, sums);
    } else {
      multiply_matrix_tile<1>(a, b, steps, add, sums);
    }
#else
    static_assert(!kMatrixTiles<P>, "the blocks were chosen for a processor with AMX");
#endif
  } else if (columns > 2 * kLanes) {
    multiply_tile<kPairs<P>, 3>(a, b, steps, add, sums);
  } else if (columns > kLanes) {
    multiply_tile<kPairs<P>, 2>(a, b, steps, add, sums);
  } else {
    multiply_tile<kPairs<P>, 1>(a, b, steps, add, sums);
  }
}

template <class P>
CAUSEWAY_INLINE void store_tile(const P& p, int64_t batch, int64_t m, int64_t rows, int64_t n, int64_t columns,
                                const float* sums) {
  constexpr int64_t kColumns = P::kBlocks.tile_columns;
#pragma clang loop unroll(disable)
  for (int64_t i = 0; i < rows; ++i) {
    const float* row = sums + i * kColumns;
    if (columns == kColumns) {
#pragma clang loop vectorize(assume_safety) vectorize_width(kLanes)
      for (int64_t j = 0; j < kColumns; ++j) p.store(batch, m + i, n + j, row[j]);
    } else {
#pragma clang loop vectorize(assume_safety) vectorize_width(kLanes) interleave(disable)
      for (int64_t j = 0; j < columns; ++j) p.store(batch, m + i, n + j, row[j]);
    }
  }
}

// A task's panels of a block of k by matrix registers. Slices of two panels that meet stay in the first cache level,
// that of B while it meets all of A's; sums stay in the second one until `last`, when rows of several panels leave in
// one run: they lie pages apart.
template <class P>
CAUSEWAY_INLINE void multiply_matrix_panels(const P& p, int64_t batch, int64_t m, int64_t rows, int64_t n,
                                            int64_t columns, const uint32_t* a, const uint32_t* b, int64_t steps,
                                            bool add, bool last, bool one_block, float* sums) {
  constexpr GemmBlocks kBlocks = P::kBlocks;
  constexpr int64_t kRows = kBlocks.tile_rows, kColumns = kBlocks.tile_columns;
  constexpr int64_t kSlice = 128;  // words: 16 KiB of a panel
  for (int64_t first = 0; first < columns; first += kGemmColumnsTogether) {
    const int64_t end = gemm_min(first + kGemmColumnsTogether, columns);
    float* together = one_block ? sums : sums + first * kBlocks.m;
    for (int64_t j = first; j < end; j += kColumns) {
      for (int64_t step = 0; step == 0 || step < steps; step += kSlice) {
        for (int64_t i = 0; i < rows; i += kRows)
          multiply_columns<P>(a + i * steps + step * kRows, b + j * steps + step * kColumns,
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

template <class P>
CAUSEWAY_INLINE void run_packed(const P& p, int64_t task, void* scratch) {
  constexpr GemmBlocks kBlocks = P::kBlocks;
  constexpr bool kPackA = kBlocks.path == GemmPath::kPackA;
  constexpr int64_t kRows = kBlocks.tile_rows, kColumns = kBlocks.tile_columns;
  constexpr int64_t kMatrixSide = 2 * kMatrixTileRows;
  static_assert(kRows == (kBlocks.matrix_tiles ? kMatrixSide : kTileRows) &&
                    kColumns == (kBlocks.matrix_tiles ? kMatrixSide : kTileColumns) && kBlocks.pairs == kPairs<P>,
                "the blocks were chosen for another vector level");
  int64_t m_blocks = gemm_ceil_div(p.m, kBlocks.m);
  int64_t n_blocks = gemm_ceil_div(p.n, kBlocks.n);
  // Tasks that run side by side share the packed operand's block.
  int64_t m_block = kPackA ? task / n_blocks % m_blocks : task % m_blocks;
  int64_t n_block = kPackA ? task % n_blocks : task / m_blocks % n_blocks;
  int64_t batch = task / (m_blocks * n_blocks);
  int64_t m = m_block * kBlocks.m;
  int64_t n = n_block * kBlocks.n;
  int64_t rows = gemm_min(kBlocks.m, p.m - m);
  int64_t columns = gemm_min(kBlocks.n, p.n - n);

  const uint32_t* packed =
      static_cast<const uint32_t*>(p.workspace) + batch * gemm_packed_words(kBlocks, p.m, p.n, p.k);
  int64_t padded = kPackA ? gemm_round_up(p.m, kRows) : gemm_round_up(p.n, kColumns);
  uint32_t* fresh = static_cast<uint32_t*>(scratch);
  float* sums = reinterpret_cast<float*>(fresh + gemm_words(kBlocks, kBlocks.k) * (kPackA ? kBlocks.n : kBlocks.m));
  bool one_block = p.k <= kBlocks.k;
#ifdef CAUSEWAY_MATRIX_TILES
  if constexpr (kBlocks.matrix_tiles) begin_matrix_tiles();
#endif

  int64_t k = 0;
  do {
    int64_t terms = gemm_min(kBlocks.k, p.k - k);
    int64_t steps = gemm_words(kBlocks, terms);
    const uint32_t* block = packed + padded * gemm_words(kBlocks, k);
    if constexpr (kPackA) {
      pack(Operand<P, false>{p, batch}, n, columns, k, terms, fresh);
    } else {
      pack(Operand<P, true>{p, batch}, m, rows, k, terms, fresh);
    }
    const uint32_t* a = kPackA ? block + m * steps : fresh;
    const uint32_t* b = kPackA ? fresh : block + n * steps;
    const bool last = k + terms == p.k;
    if constexpr (kMatrixTiles<P>) {
      multiply_matrix_panels(p, batch, m, rows, n, columns, a, b, steps, k > 0, last, one_block, sums);
    } else {
      alignas(64) float one_tile[kRows * kColumns];
      for (int64_t j = 0; j < columns; j += kColumns) {
        int64_t tile_columns = gemm_min(kColumns, columns - j);
        for (int64_t i = 0; i < rows; i += kRows) {
          float* tile = one_block ? one_tile : sums + j * kBlocks.m + i * kColumns;
          multiply_columns<P>(a + i * steps, b + j * steps, steps, k > 0, tile_columns, tile);
          if (last) store_tile(p, batch, m + i, gemm_min(kRows, rows - i), n + j, tile_columns, tile);
        }
      }
    }
    k += terms;
  } while (k < p.k);
#ifdef CAUSEWAY_MATRIX_TILES
  if constexpr (kBlocks.matrix_tiles) end_matrix_tiles();
#endif
}

// The transposed problem: C^T = B^T A^T.
template <class P>
struct Swapped {
  using Operand = typename P::Operand;
  static constexpr bool kAContiguousInK = !P::kBContiguousInN;
  static constexpr bool kBContiguousInN = !P::kAContiguousInK;
  static constexpr GemmBlocks kBlocks = {GemmPath::kSkinny,    P::kBlocks.pairs, P::kBlocks.tile_columns,
                                         P::kBlocks.tile_rows, P::kBlocks.n,     P::kBlocks.m,
                                         P::kBlocks.k};
  const P& p;
  int64_t m, n, k;

  CAUSEWAY_INLINE float load_a(int64_t batch, int64_t i, int64_t at) const { return p.load_b(batch, at, i); }
  CAUSEWAY_INLINE float load_b(int64_t batch, int64_t at, int64_t j) const { return p.load_a(batch, j, at); }
  CAUSEWAY_INLINE void prefetch_b(int64_t batch, int64_t at, int64_t j) const
    requires requires { p.prefetch_a(batch, j, at); }
  {
    p.prefetch_a(batch, j, at);
  }
  CAUSEWAY_INLINE void store(int64_t batch, int64_t i, int64_t j, float value) const { p.store(batch, j, i, value); }
};

// kLanes columns of B, or terms of one of its columns, rounded to the operand type.
template <class P, bool kAlong>
CAUSEWAY_INLINE FloatLanes load_skinny(const P& p, int64_t batch, int64_t k, int64_t n) {
  alignas(64) float terms[kLanes];
#pragma clang loop vectorize(assume_safety) vectorize_width(kLanes) unroll(disable)
  for (int64_t t = 0; t < kLanes; ++t)
    terms[t] = round_operand<P>(kAlong ? p.load_b(batch, k + t, n) : p.load_b(batch, k, n + t));
  return load_lanes(terms);
}

// The first `count` of them, zeros behind. Not one function with the one above: an array that both fill stays in
// memory.
template <class P, bool kAlong>
CAUSEWAY_INLINE FloatLanes load_skinny(const P& p, int64_t batch, int64_t k, int64_t n, int64_t count) {
  if (count >= kLanes) return load_skinny<P, kAlong>(p, batch, k, n);
  alignas(64) float terms[kLanes];
#pragma clang loop vectorize(disable) unroll(disable)
  for (int64_t t = 0; t < kLanes; ++t)
    terms[t] = t < count ? round_operand<P>(kAlong ? p.load_b(batch, k + t, n) : p.load_b(batch, k, n + t)) : 0.0f;
  return load_lanes(terms);
}

// Rows of B between one that is read and one that is asked for. Nearer, a block's runs, each of which begins where the
// processor has not looked ahead to, keep less memory busy than its bandwidth needs.
constexpr int kSkinnyAhead = 16;

// Rows whose factors of a few terms registers hold while B passes by.
constexpr int kSkinnyHeldRows = 4;

// sums[kRows][columns] += rows * B over kTerms of k, with B's columns side by side: as many rows of B are streamed
// together. Sums are padded to whole vectors.
template <class P, int kRows, int kTerms>
CAUSEWAY_INLINE void skinny_across(const P& p, int64_t batch, int64_t n, int64_t columns, int64_t k, const float* rows,
                                   int64_t row_stride, float* sums, int64_t sum_stride) {
  static_assert(kRows <= kSkinnyHeldRows);
  float held[kRows][kTerms];
  for (int i = 0; i < kRows; ++i) {
    for (int t = 0; t < kTerms; ++t) held[i][t] = rows[i * row_stride + t];
  }
#pragma clang loop unroll(disable)
  for (int64_t j = 0; j < columns; j += kLanes) {
    FloatLanes terms[kTerms];
#pragma clang loop unroll(full)
    for (int t = 0; t < kTerms; ++t) {
      if constexpr (requires { p.prefetch_b(batch, k, n); }) p.prefetch_b(batch, k + kSkinnyAhead + t, n + j);
      terms[t] = load_skinny<P, false>(p, batch, k + t, n + j, columns - j);
    }
#pragma clang loop unroll(full)
    for (int i = 0; i < kRows; ++i) {
      float* to = sums + i * sum_stride + j;
      FloatLanes sum = load_lanes(to);
#pragma clang loop unroll(full)
      for (int t = 0; t < kTerms; ++t) sum = multiply_add(splat_lanes(held[i][t]), terms[t], sum);
      store_lanes(to, sum);
    }
  }
}

// Of `rows`, cut into groups of nearly one size, those whose sums registers hold.
constexpr int skinny_group(int rows) {
  int groups = (rows + kTileRows - 1) / kTileRows;
  return (rows + groups - 1) / groups;
}

// Rows of B that meet all rows of A before the next ones do, and so the distance from one that is read to one that is
// asked for: long enough that sums, which registers hold meanwhile, are seldom in memory, and short enough that what is
// asked for stays in the second cache level until then.
constexpr int kSkinnyBlock = 64;

// sums[kRows][kVectors * kLanes] += rows * B over `terms` of k, with B's columns side by side and the sums in
// registers. `count`: how many of the columns there are, more than all vectors but the last one have. With kAsk, the
// rows of B that lie `ahead` of these are asked for.
template <class P, int kRows, int kVectors, bool kAsk>
CAUSEWAY_INLINE void skinny_tile(const P& p, int64_t batch, int64_t n, int64_t count, int64_t k, int64_t terms,
                                 int64_t ahead, const float* rows, int64_t row_stride, float* sums,
                                 int64_t sum_stride) {
  FloatLanes tile[kRows][kVectors];
#pragma clang loop unroll(full)
  for (int i = 0; i < kRows; ++i) {
#pragma clang loop unroll(full)
    for (int j = 0; j < kVectors; ++j) tile[i][j] = load_lanes(sums + i * sum_stride + j * kLanes);
  }
#pragma clang loop unroll_count(2)
  for (int64_t t = 0; t < terms; ++t) {
    FloatLanes columns[kVectors];
#pragma clang loop unroll(full)
    for (int j = 0; j < kVectors; ++j) {
      const int64_t at = j * kLanes;
      if constexpr (kAsk && requires { p.prefetch_b(batch, k, n); }) p.prefetch_b(batch, k + t + ahead, n + at);
      columns[j] = load_skinny<P, false>(p, batch, k + t, n + at, j + 1 < kVectors ? kLanes : count - at);
    }
#pragma clang loop unroll(full)
    for (int i = 0; i < kRows; ++i) {
      const FloatLanes row = splat_lanes(rows[i * row_stride + t]);
#pragma clang loop unroll(full)
      for (int j = 0; j < kVectors; ++j) tile[i][j] = multiply_add(row, columns[j], tile[i][j]);
    }
  }
#pragma clang loop unroll(full)
  for (int i = 0; i < kRows; ++i) {
#pragma clang loop unroll(full)
    for (int j = 0; j < kVectors; ++j) store_lanes(sums + i * sum_stride + j * kLanes, tile[i][j]);
  }
}

// The same of all rows: the first group, which may be smaller than others, asks for what the next block reads.
template <class P, int kRows, int kVectors>
CAUSEWAY_INLINE void skinny_tiles(const P& p, int64_t batch, int64_t n, int64_t count, int64_t k, int64_t terms,
                                  int64_t ahead, const float* rows, int64_t row_stride, float* sums,
                                  int64_t sum_stride) {
  constexpr int kGroup = skinny_group(kRows);
  constexpr int kFirst = kRows - (kRows - 1) / kGroup * kGroup;
  skinny_tile<P, kFirst, kVectors, true>(p, batch, n, count, k, terms, ahead, rows, row_stride, sums, sum_stride);
#pragma clang loop unroll(disable)
  for (int i = kFirst; i < kRows; i += kGroup) {
    skinny_tile<P, kGroup, kVectors, false>(p, batch, n, count, k, terms, ahead, rows + i * row_stride, row_stride,
                                            sums + i * sum_stride, sum_stride);
  }
}

// sums[kRows][columns] += rows * B over `terms` of k, with B's columns side by side: for more rows than skinny_across
// has registers for. Each block of B is read once from memory and by the other groups of rows from a cache.
template <class P, int kRows>
CAUSEWAY_INLINE void skinny_blocks(const P& p, int64_t batch, int64_t n, int64_t columns, int64_t k, int64_t terms,
                                   const float* rows, int64_t row_stride, float* sums, int64_t sum_stride) {
  if constexpr (requires { p.prefetch_b(batch, k, n); }) {
    if (k == 0) {  // what no block before it has asked for
      const int64_t first = gemm_min(kSkinnyBlock, p.k);
      for (int64_t t = 0; t < first; ++t) {
        for (int64_t j = 0; j < columns; j += kLanes) p.prefetch_b(batch, t, n + j);
      }
    }
  }
  for (int64_t t = 0; t < terms; t += kSkinnyBlock) {
    const int64_t some = gemm_min(kSkinnyBlock, terms - t);
    const int64_t ahead = k + t + some < p.k ? kSkinnyBlock : 0;
    for (int64_t j = 0; j < columns; j += kTileColumns) {
      const int64_t count = columns - j;
      if (count > 2 * kLanes) {
        skinny_tiles<P, kRows, 3>(p, batch, n + j, count, k + t, some, ahead, rows + t, row_stride, sums + j,
                                  sum_stride);
      } else if (count > kLanes) {
        skinny_tiles<P, kRows, 2>(p, batch, n + j, count, k + t, some, ahead, rows + t, row_stride, sums + j,
                                  sum_stride);
      } else {
        skinny_tiles<P, kRows, 1>(p, batch, n + j, count, k + t, some, ahead, rows + t, row_stride, sums + j,
                                  sum_stride);
      }
    }
  }
}

// lanes[kRows][kColumns] += rows * B, lane by lane, over kLanes terms of k, or with kWhole off over `count`.
template <class P, int kRows, int kColumns, bool kWhole>
CAUSEWAY_INLINE void skinny_along_step(const P& p, int64_t batch, int64_t n, int64_t k, int64_t count,
                                       const float* rows, int64_t row_stride, FloatLanes (&lanes)[kRows][kColumns]) {
  FloatLanes columns[kColumns];
#pragma clang loop unroll(full)
  for (int j = 0; j < kColumns; ++j) {
    if constexpr (requires { p.prefetch_b(batch, k, n); }) p.prefetch_b(batch, k, n + j + 2 * kColumns);
    if constexpr (kWhole) {
      columns[j] = load_skinny<P, true>(p, batch, k, n + j);
    } else {
      columns[j] = load_skinny<P, true>(p, batch, k, n + j, count);
    }
  }
#pragma clang loop unroll(full)
  for (int i = 0; i < kRows; ++i) {
    const FloatLanes row = load_lanes(rows + i * row_stride);
#pragma clang loop unroll(full)
    for (int j = 0; j < kColumns; ++j) lanes[i][j] = multiply_add(row, columns[j], lanes[i][j]);
  }
}

// sums[kRows][kColumns] += rows * B over `terms` of k, with B's columns each running along memory: dot products, kLanes
// terms at a time.
template <class P, int kRows, int kColumns>
CAUSEWAY_INLINE void skinny_along(const P& p, int64_t batch, int64_t n, int64_t k, int64_t terms, const float* rows,
                                  int64_t row_stride, float* sums, int64_t sum_stride) {
  FloatLanes lanes[kRows][kColumns] = {};
  int64_t t = 0;
#pragma clang loop unroll(disable)
  for (; t + kLanes <= terms; t += kLanes)
    skinny_along_step<P, kRows, kColumns, true>(p, batch, n, k + t, kLanes, rows + t, row_stride, lanes);
  if (t < terms)
    skinny_along_step<P, kRows, kColumns, false>(p, batch, n, k + t, terms - t, rows + t, row_stride, lanes);
  // The sum of column j and row i has the number j * kRows + i.
  constexpr int kSums = kRows * kColumns;
#pragma clang loop unroll(full)
  for (int first = 0; first < kSums; first += kLanes) {
    FloatLanes some[kLanes];
#pragma clang loop unroll(full)
    for (int s = 0; s < kLanes; ++s)
      some[s] = first + s < kSums ? lanes[(first + s) % kRows][(first + s) / kRows] : FloatLanes(0.0f);
    const FloatLanes found = sum_lanes_of(some);
#pragma clang loop unroll(full)
    for (int s = 0; s < kLanes && first + s < kSums; ++s)
      sums[(first + s) % kRows * sum_stride + (first + s) / kRows] += found[s];
  }
}

// The same of all rows: for those after the first group B comes from the first cache level.
template <class P, int kRows, int kColumns>
CAUSEWAY_INLINE void skinny_along_all(const P& p, int64_t batch, int64_t n, int64_t k, int64_t terms, const float* rows,
                                      int64_t row_stride, float* sums, int64_t sum_stride) {
  constexpr int kGroup = skinny_group(kRows);
  constexpr int kLast = (kRows - 1) / kGroup * kGroup;
#pragma clang loop unroll(disable)
  for (int i = 0; i < kLast; i += kGroup) {
    skinny_along<P, kGroup, kColumns>(p, batch, n, k, terms, rows + i * row_stride, row_stride, sums + i * sum_stride,
                                      sum_stride);
  }
  skinny_along<P, kRows - kLast, kColumns>(p, batch, n, k, terms, rows + kLast * row_stride, row_stride,
                                           sums + kLast * sum_stride, sum_stride);
}

template <int kRows, class P>
CAUSEWAY_INLINE void run_skinny_rows(const P& p, int64_t task, void* scratch) {
  constexpr GemmBlocks kBlocks = P::kBlocks;
  int64_t n_blocks = gemm_ceil_div(p.n, kBlocks.n);
  int64_t batch = task / n_blocks;
  int64_t n = task % n_blocks * kBlocks.n;
  int64_t columns = gemm_min(kBlocks.n, p.n - n);

  int64_t row_stride = gemm_skinny_stride(kBlocks, p.k);
  float* rows = static_cast<float*>(scratch);
  float* sums = rows + kRows * row_stride;
  for (int64_t i = 0; i < kRows * kBlocks.n; ++i) sums[i] = 0.0f;
  // Where sums stay in memory anyway, half as many terms cost nothing and are read from a nearer cache.
  constexpr int64_t kTerms = P::kBContiguousInN ? gemm_min(kBlocks.k, 512) : kBlocks.k;
  for (int64_t k = 0; k < p.k; k += kTerms) {
    int64_t terms = gemm_min(kTerms, p.k - k);
    for (int64_t i = 0; i < kRows; ++i) {
#pragma clang loop vectorize(assume_safety)
      for (int64_t t = 0; t < terms; ++t) rows[i * row_stride + t] = round_operand<P>(p.load_a(batch, i, k + t));
      for (int64_t t = terms; t < row_stride; ++t) rows[i * row_stride + t] = 0.0f;
    }
    if constexpr (P::kBContiguousInN) {
      if constexpr (kRows > kSkinnyHeldRows) {
        skinny_blocks<P, kRows>(p, batch, n, columns, k, terms, rows, row_stride, sums, kBlocks.n);
      } else {
        constexpr int kTogether = 8;
        int64_t t = 0;
        for (; t + kTogether <= terms; t += kTogether) {
          skinny_across<P, kRows, kTogether>(p, batch, n, columns, k + t, rows + t, row_stride, sums, kBlocks.n);
        }
        for (; t < terms; ++t)
          skinny_across<P, kRows, 1>(p, batch, n, columns, k + t, rows + t, row_stride, sums, kBlocks.n);
      }
    } else {
      constexpr int kTogether = skinny_group(kRows) > kTileRows * 3 / 4 ? 3 : 4;
      int64_t j = 0;
      for (; j + kTogether <= columns; j += kTogether) {
        skinny_along_all<P, kRows, kTogether>(p, batch, n + j, k, terms, rows, row_stride, sums + j, kBlocks.n);
      }
      for (; j < columns; ++j)
        skinny_along_all<P, kRows, 1>(p, batch, n + j, k, terms, rows, row_stride, sums + j, kBlocks.n);
    }
  }
  for (int64_t i = 0; i < kRows; ++i) {
#pragma clang loop vectorize(assume_safety)
    for (int64_t j = 0; j < columns; ++j) p.store(batch, i, n + j, sums[i * kBlocks.n + j]);
  }
}

template <class P>
CAUSEWAY_INLINE void run_skinny(const P& p, int64_t task, void* scratch) {
  run_skinny_rows<static_cast<int>(P::kBlocks.m)>(p, task, scratch);
}

}  // namespace gemm

// Phase 1: packs one piece of the operand that phase 2 shares between tasks.
template <class P>
CAUSEWAY_INLINE void gemm_pack(const P& p, int64_t task) {
  constexpr GemmBlocks kBlocks = P::kBlocks;
  static_assert(!gemm_is_skinny(kBlocks), "this path has no phase 1");
  constexpr bool kPackA = kBlocks.path == GemmPath::kPackA;
  using Packed = gemm::Operand<P, kPackA>;
  int64_t k_blocks = gemm_k_blocks(kBlocks, p.k);
  int64_t extent = kPackA ? p.m : p.n;
  int64_t groups = gemm_ceil_div(extent, kGemmPackGroup);
  int64_t row = task % groups * kGemmPackGroup;
  int64_t k = task / groups % k_blocks * kBlocks.k;
  int64_t batch = task / (groups * k_blocks);
  int64_t terms = gemm_min(kBlocks.k, p.k - k);
  uint32_t* to = static_cast<uint32_t*>(p.workspace) + batch * gemm_packed_words(kBlocks, p.m, p.n, p.k) +
                 gemm_round_up(extent, Packed::kWidth) * gemm_words(kBlocks, k) + row * gemm_words(kBlocks, terms);
  gemm::pack(Packed{p, batch}, row, gemm_min(kGemmPackGroup, extent - row), k, terms, to);
}

// Phase 2: computes one block of C and hands it to the epilogue. `scratch`: gemm_scratch_bytes, 64-byte aligned.
template <class P>
CAUSEWAY_INLINE void gemm_run(const P& p, int64_t task, void* scratch) {
  if constexpr (P::kBlocks.path == GemmPath::kSkinny) {
    gemm::run_skinny(p, task, scratch);
  } else if constexpr (P::kBlocks.path == GemmPath::kSkinnySwapped) {
    gemm::run_skinny(gemm::Swapped<P>{p, p.n, p.m, p.k}, task, scratch);
  } else {
    gemm::run_packed(p, task, scratch);
  }
}
