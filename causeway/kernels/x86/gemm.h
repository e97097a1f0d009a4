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
// optionally
//   static constexpr bool kOperandsAreRounded;   true: load_a and load_b give values of Operand, which are not rounded
//                                                again where they are packed as floats
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
// Phase 1 is gemm_pack for tasks 0..gemm_pack_tasks-1, phase 2, after it, gemm_run for 0..gemm_run_tasks-1. Of skinny
// paths there is phase 2 alone, gemm_skinny_run (gemm_skinny.h).
// Each sum runs over k in one fixed order: its bits depend on neither the order of tasks nor on how many threads run
// them.
//
// The packed paths follow Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008), with
// register tiles of 8 x 48 (AVX-512), 4 x 24 (AVX2) or 4 x 12, and other ones of other mainloops (gemm_amx.h). A packed
// operand is a list of panels, each as wide as the tile: for each word of k, the panel's rows (or columns) side by
// side; a word is a float or two bf16 along k.
#pragma once

#include "causeway/kernels/types.h"
#include "causeway/kernels/x86/gemm_layout.h"
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
constexpr bool operands_are_rounded() {
  if constexpr (requires { P::kOperandsAreRounded; }) {
    return P::kOperandsAreRounded;
  } else {
    return !kIsBf16<typename P::Operand>;
  }
}

template <class P>
CAUSEWAY_INLINE float round_operand(float value) {
  if constexpr (!operands_are_rounded<P>()) {
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

// How packed panels meet: what a mainloop is beside packing. Of matrix registers: gemm_amx.h.
//   kRows, kColumns    of a tile, and so the widths of panels
//   kPacksRows         whether rows of A are packed otherwise than columns of B, by pack_rows()
//   begin(), end()     by the thread, around the rest
//   multiply()         a task's panels of a block of k; the sums leave with the `last`
template <class P, bool kByMatrixTiles = kMatrixTiles<P>>
struct Panels;

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

#if CAUSEWAY_X86_LEVEL == 1
// Riffles as transpose_words does, of vectors that one register's half holds: an unpack instruction each.
template <int kRows, class Lanes>
CAUSEWAY_INLINE void transpose_halves(Lanes (&rows)[kRows]) {
#pragma clang loop unroll(full)
  for (int stage = 1; stage < kRows; stage *= 2) {
    Lanes mixed[kRows];
#pragma clang loop unroll(full)
    for (int i = 0; i < kRows / 2; ++i) {
      const Lanes first = rows[i], second = rows[i + kRows / 2];
      if constexpr (sizeof(first[0]) == 2) {
        mixed[2 * i] = __builtin_shufflevector(first, second, 0, 8, 1, 9, 2, 10, 3, 11);
        mixed[2 * i + 1] = __builtin_shufflevector(first, second, 4, 12, 5, 13, 6, 14, 7, 15);
      } else {
        mixed[2 * i] = __builtin_shufflevector(first, second, 0, 4, 1, 5);
        mixed[2 * i + 1] = __builtin_shufflevector(first, second, 2, 6, 3, 7);
      }
    }
#pragma clang loop unroll(full)
    for (int i = 0; i < kRows; ++i) rows[i] = mixed[i];
  }
}

// Eight terms of each of a panel's rows, all of which there are, that run along memory. bf16 are transposed as they
// are and widened as they leave; floats four at a time, whose unpacking stays within halves of registers.
template <class P, bool kIsA>
CAUSEWAY_INLINE void pack_eight_terms(const Operand<P, kIsA>& operand, int64_t row, int64_t k, uint32_t* to) {
  constexpr int kWidth = Operand<P, kIsA>::kWidth;
  constexpr int kRows = kWidth < kLanes ? kWidth : kLanes;
  constexpr int kTerms = 8;
#pragma clang loop unroll(disable)
  for (int64_t group = 0; group < kWidth; group += kRows) {
    if constexpr (kIsBf16<typename P::Operand>) {
      using Halves = Vector<uint16_t, kTerms>;
      alignas(64) uint16_t gathered[kRows][kTerms];
      Halves rows[kRows];
#pragma clang loop unroll(full)
      for (int i = 0; i < kRows; ++i) {
#pragma clang loop vectorize(assume_safety) vectorize_width(8)
        for (int64_t j = 0; j < kTerms; ++j)
          gathered[i][j] = static_cast<uint16_t>(operand.term(row + group + i, k + j) >> 16);
        __builtin_memcpy(&rows[i], gathered[i], sizeof(rows[i]));
      }
      transpose_halves<kRows>(rows);
#pragma clang loop unroll(full)
      for (int i = 0; i < kRows; ++i)
        store_lanes(to + group + (kRows == kWidth ? i * kTerms : i * kWidth),
                    __builtin_convertvector(rows[i], WordLanes) << 16);
    } else {
      alignas(64) uint32_t gathered[kRows][kTerms];
#pragma clang loop unroll(full)
      for (int i = 0; i < kRows; ++i) {
#pragma clang loop vectorize(assume_safety) vectorize_width(8)
        for (int64_t j = 0; j < kTerms; ++j) gathered[i][j] = operand.term(row + group + i, k + j);
      }
      using Halves = Vector<uint32_t, 4>;
#pragma clang loop unroll(full)
      for (int i = 0; i < kRows; i += 4) {
#pragma clang loop unroll(full)
        for (int j = 0; j < kTerms; j += 4) {
          Halves rows[4];
#pragma clang loop unroll(full)
          for (int r = 0; r < 4; ++r) __builtin_memcpy(&rows[r], &gathered[i + r][j], sizeof(rows[r]));
          transpose_halves<4>(rows);
#pragma clang loop unroll(full)
          for (int r = 0; r < 4; ++r) __builtin_memcpy(to + (j + r) * kWidth + group + i, &rows[r], sizeof(rows[r]));
        }
      }
    }
  }
}
#endif

// One panel whose rows each run along memory: read kLanes words of every row, then transpose.
template <class P, bool kIsA>
CAUSEWAY_INLINE void pack_along(const Operand<P, kIsA>& operand, int64_t row, int64_t rows, int64_t k, int64_t terms,
                                int64_t steps, uint32_t* to) {
  constexpr int kWidth = Operand<P, kIsA>::kWidth;
  constexpr int kRows = kWidth < kLanes ? kWidth : kLanes;
  constexpr int kTerms = kLanes * kDepth<P>;
  using Term = typename Operand<P, kIsA>::Term;
  int64_t step = 0;
#if CAUSEWAY_X86_LEVEL == 1
  if (rows == kWidth) {
    for (; step + kLanes <= steps; step += kLanes) pack_eight_terms(operand, row, k + step, to + step * kWidth);
  }
#endif
  for (; step < steps; step += kLanes) {
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

// Packs rows [row, row + rows) and terms [k, k + terms) as panels, one after the other.
template <class P, bool kIsA>
CAUSEWAY_INLINE void pack(const Operand<P, kIsA>& operand, int64_t row, int64_t rows, int64_t k, int64_t terms,
                          uint32_t* to) {
  constexpr int kWidth = Operand<P, kIsA>::kWidth;
  int64_t steps = gemm_words(P::kBlocks, terms);
  if constexpr (kIsA && Panels<P>::kPacksRows) {
    for (int64_t first = 0; first < rows; first += kWidth)
      Panels<P>::pack_rows(operand, row + first, gemm_min(kWidth, rows - first), k, terms, steps, to + first * steps);
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

// By vectors.
template <class P>
struct Panels<P, false> {
  static constexpr int64_t kRows = kTileRows, kColumns = kTileColumns;
  static constexpr bool kPacksRows = false;
  CAUSEWAY_INLINE static void begin() {}
  CAUSEWAY_INLINE static void end() {}

  // The first `columns` columns of a tile's sums of `steps` words.
  CAUSEWAY_INLINE static void multiply_columns(const uint32_t* a, const uint32_t* b, int64_t steps, bool add,
                                               int64_t columns, float* sums) {
    if (columns > 2 * kLanes) {
      multiply_tile<kPairs<P>, 3>(a, b, steps, add, sums);
    } else if (columns > kLanes) {
      multiply_tile<kPairs<P>, 2>(a, b, steps, add, sums);
    } else {
      multiply_tile<kPairs<P>, 1>(a, b, steps, add, sums);
    }
  }

  CAUSEWAY_INLINE static void multiply(const P& p, int64_t batch, int64_t m, int64_t rows, int64_t n, int64_t columns,
                                       const uint32_t* a, const uint32_t* b, int64_t steps, bool add, bool last,
                                       bool one_block, float* sums) {
    alignas(64) float one_tile[kRows * kColumns];
    for (int64_t j = 0; j < columns; j += kColumns) {
      int64_t tile_columns = gemm_min(kColumns, columns - j);
      for (int64_t i = 0; i < rows; i += kRows) {
        float* tile = one_block ? one_tile : sums + j * P::kBlocks.m + i * kColumns;
        if constexpr (requires { p.prefetch_epilogue(batch, m, n); }) {
          // It arrives while the panels meet.
          if (last) {
#pragma clang loop unroll(disable)
            for (int64_t row = i; row < gemm_min(rows, i + kRows); ++row) p.prefetch_epilogue(batch, m + row, n + j);
          }
        }
        multiply_columns(a + i * steps, b + j * steps, steps, add, tile_columns, tile);
        if (last) store_tile(p, batch, m + i, gemm_min(kRows, rows - i), n + j, tile_columns, tile);
      }
    }
  }
};

template <class P>
CAUSEWAY_INLINE void run_packed(const P& p, int64_t task, void* scratch) {
  constexpr GemmBlocks kBlocks = P::kBlocks;
  constexpr bool kPackA = kBlocks.path == GemmPath::kPackA;
  constexpr int64_t kRows = kBlocks.tile_rows, kColumns = kBlocks.tile_columns;
  static_assert(kRows == Panels<P>::kRows && kColumns == Panels<P>::kColumns && kBlocks.pairs == kPairs<P>,
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
  Panels<P>::begin();

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
    Panels<P>::multiply(p, batch, m, rows, n, columns, a, b, steps, k > 0, last, one_block, sums);
    k += terms;
  } while (k < p.k);
  Panels<P>::end();
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
  gemm::run_packed(p, task, scratch);
}
