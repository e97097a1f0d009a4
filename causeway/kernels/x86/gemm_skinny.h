// GEMMs with few rows, or few columns, for the Problem of gemm.h: nothing is packed beforehand, the other operand is
// streamed once, in f32.
#pragma once

#include "causeway/kernels/x86/gemm.h"

namespace gemm {

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

// Computes one block of C and hands it to the epilogue. `scratch`: gemm_scratch_bytes, 64-byte aligned.
template <class P>
CAUSEWAY_INLINE void gemm_skinny_run(const P& p, int64_t task, void* scratch) {
  if constexpr (P::kBlocks.path == GemmPath::kSkinny) {
    gemm::run_skinny(p, task, scratch);
  } else {
    gemm::run_skinny(gemm::Swapped<P>{p, p.n, p.m, p.k}, task, scratch);
  }
}
