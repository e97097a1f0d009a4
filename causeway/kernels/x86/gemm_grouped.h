// GEMMs of groups of rows (grouped_dot) on x86-64, by the panels of gemm.h and of its other mainloops: what multiplies
// them, the mainloop's header that is included too says. The problem is that of gemm.h, of which there are as many as
// groups, with what says which rows are whose:
//   static constexpr bool kSumsRows;   false: C[slab, m, n] = sum over k of A[slab, m, k] B[group of row m, k, n],
//   where
//                                      m counts a slab's rows; true: C[group, m, n] = sum over slabs and over the rows
//                                      k of the group there of A[slab, m, k] B[slab, k, n]
//   int64_t slabs, groups;             batch is not asked for
//   int64_t offset(int64_t slab, int64_t i) const;   element i of the slab's line of offsets
// load_a, load_b and store are given a slab or a group as their batch. Nothing is packed beforehand: which matrices are
// multiplied at all, and how often, data decides.
// Each sum runs over k, and over slabs, in one order, whichever task and thread computes it.
#pragma once

#include "causeway/kernels/grouped_rows.h"
#include "causeway/kernels/x86/gemm.h"
#include "causeway/kernels/x86/gemm_grouped_layout.h"

namespace gemm {

// Rows of one group as a GEMM of their own.
template <class P>
struct GroupView {
  using Operand = typename P::Operand;
  static constexpr bool kAContiguousInK = P::kAContiguousInK, kBContiguousInN = P::kBContiguousInN;
  static constexpr GemmBlocks kBlocks = P::kBlocks;
  static constexpr bool kOperandsAreRounded = operands_are_rounded<P>();

  const P& p;
  int64_t a_batch, b_batch, c_batch;
  int64_t first_row;   // of A and C
  int64_t first_term;  // of A and B

  CAUSEWAY_INLINE float load_a(int64_t, int64_t m, int64_t k) const {
    return p.load_a(a_batch, first_row + m, first_term + k);
  }
  CAUSEWAY_INLINE float load_b(int64_t, int64_t k, int64_t n) const { return p.load_b(b_batch, first_term + k, n); }
  CAUSEWAY_INLINE void store(int64_t, int64_t m, int64_t n, float value) const {
    p.store(c_batch, first_row + m, n, value);
  }
};

// A block of C under way: its place, and the scratch that it is computed in.
template <class P>
struct GroupBlock {
  using View = GroupView<P>;
  static constexpr GemmBlocks kBlocks = P::kBlocks;
  int64_t m, rows, n, columns;
  uint32_t* a;
  uint32_t* b;
  float* sums;

  CAUSEWAY_INLINE GroupBlock(void* scratch, int64_t k_limit, int64_t m, int64_t rows, int64_t n, int64_t columns)
      : m(m),
        rows(gemm_min(rows, kBlocks.m)),
        n(n),
        columns(gemm_min(columns, kBlocks.n)),
        a(static_cast<uint32_t*>(scratch)),
        b(a + grouped_gemm_words(kBlocks, k_limit) * kBlocks.m),
        sums(reinterpret_cast<float*>(b + grouped_gemm_words(kBlocks, k_limit) * kBlocks.n)) {}

  // Adds `terms` terms of the view; `first`, `last`: of all that the block sums up.
  CAUSEWAY_INLINE void add(const View& view, int64_t terms, bool first, bool last) const {
    int64_t k = 0;
    do {
      const int64_t now = gemm_min(kBlocks.k, terms - k), steps = gemm_words(kBlocks, now);
      pack(gemm::Operand<View, true>{view, 0}, m, rows, k, now, a);
      pack(gemm::Operand<View, false>{view, 0}, n, columns, k, now, b);
      k += now;
      Panels<View>::multiply(view, 0, m, rows, n, columns, a, b, steps, !first || k > now, last && k == terms, false,
                             sums);
    } while (k < terms);
  }
};

// What there are no rows of, or no terms.
template <class P>
CAUSEWAY_INLINE void store_zeros(const P& p, int64_t batch, int64_t m, int64_t rows, int64_t n, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i) {
#pragma clang loop vectorize(assume_safety)
    for (int64_t j = 0; j < columns; ++j) p.store(batch, m + i, n + j, 0.0f);
  }
}

}  // namespace gemm

// Computes one block of C. `scratch`: grouped_gemm_scratch_bytes, 64-byte aligned.
template <class P>
CAUSEWAY_INLINE void grouped_gemm_run(const P& p, int64_t task, void* scratch) {
  using View = gemm::GroupView<P>;
  using Block = gemm::GroupBlock<P>;
  using Panels = gemm::Panels<View>;
  constexpr GemmBlocks kBlocks = P::kBlocks;
  static_assert(kBlocks.tile_rows == Panels::kRows && kBlocks.tile_columns == Panels::kColumns &&
                    kBlocks.pairs == gemm::kPairs<View>,
                "the blocks were chosen for another vector level");
  const int64_t n_blocks = gemm_ceil_div(p.n, kBlocks.n), block = task / n_blocks;
  const int64_t n = task % n_blocks * kBlocks.n, columns = gemm_min(kBlocks.n, p.n - n);
  if constexpr (P::kSumsRows) {
    const int64_t m_blocks = gemm_ceil_div(p.m, kBlocks.m);
    const int64_t m = block % m_blocks * kBlocks.m, rows = gemm_min(kBlocks.m, p.m - m), group = block / m_blocks;
    const auto terms_of = [&](int64_t slab) {
      return rows_of_group(group, p.k, [&](int64_t i) { return p.offset(slab, i); });
    };
    int64_t last = p.slabs - 1;
    while (last >= 0 && terms_of(last).begin == terms_of(last).end) --last;
    if (last < 0) {
      gemm::store_zeros(p, group, m, rows, n, columns);
      return;
    }
    const Block sums(scratch, p.k, m, rows, n, columns);
    Panels::begin();
    bool first = true;
    for (int64_t slab = 0; slab <= last; ++slab) {
      const GroupRows terms = terms_of(slab);
      if (terms.begin == terms.end) continue;
      sums.add(View{p, slab, slab, group, 0, terms.begin}, terms.end - terms.begin, first, slab == last);
      first = false;
    }
    Panels::end();
  } else {
    const int64_t tiles = grouped_row_tiles(p.m, p.groups, kBlocks.m), slab = block / tiles;
    const GroupTile tile =
        find_group_tile(block % tiles, kBlocks.m, p.groups, p.m, [&](int64_t i) { return p.offset(slab, i); });
    const int64_t rows = gemm_min(kBlocks.m, tile.end - tile.begin);
    if (rows <= 0) return;
    if (tile.group == p.groups || p.k == 0) {
      gemm::store_zeros(p, slab, tile.begin, rows, n, columns);
      return;
    }
    const Block sums(scratch, p.k, 0, rows, n, columns);
    Panels::begin();
    sums.add(View{p, slab, tile.group, slab, tile.begin, 0}, p.k, true, true);
    Panels::end();
  }
}
