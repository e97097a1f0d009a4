// GEMMs of groups of rows (grouped_dot) on GPUs, by the mainloop of gemm.h: a block finds in memory whose rows its tile
// has. The Problem is that of gemm.h, of which there are as many as groups. Of rows that meet their group's matrix,
// batch counts slabs and m a slab's rows; of matrices that sum over the rows of a group, batch counts groups and k a
// slab's rows. Each sum runs over k, and over slabs, in one order.
#pragma once

#include "causeway/kernels/gpu/gemm.h"
#include "causeway/kernels/grouped_rows.h"

// kSumsRows: whether matrices sum over rows. offset(slab, i): element i of the slab's line of offsets. Operands lie
// along what groups do not cut: groups begin anywhere.
template <class P>
concept GroupedGemmProblem = GemmProblem<P> && P::kSplits == 1 && (P::kSumsRows || P::A::kContiguousInK) &&
                             !(P::kSumsRows && (P::A::kContiguousInK || P::B::kContiguousInK)) &&
                             requires(const P& problem, int64_t slab, int64_t i) {
                               { problem.slabs } -> SameType<int64_t>;
                               { problem.groups } -> SameType<int64_t>;
                               { problem.offset(slab, i) } -> SameType<int64_t>;
                             };

// A tile of rows of one group, or zeros where rows are of none.
template <GroupedGemmProblem Problem>
CAUSEWAY_INLINE void grouped_gemm_rows(const Problem& problem, int task) {
  using Operand = typename Problem::Operand;
  constexpr GpuGemmTile kTile = Problem::kTile;
  const int n = static_cast<int>(problem.n), k = static_cast<int>(problem.k);
  const GemmPosition tile(task, static_cast<int>(grouped_row_tiles(problem.m, problem.groups, kTile.m)),
                          (n + kTile.n - 1) / kTile.n, 1, static_cast<int>(problem.batch));
  const GroupTile rows = find_group_tile(tile.m, kTile.m, problem.groups, problem.m,
                                         [&](int64_t i) { return problem.offset(tile.batch, i); });
  if (rows.begin == rows.end) return;
  const bool has_group = rows.group < problem.groups;
  const int begin = static_cast<int>(rows.begin), end = static_cast<int>(rows.end);
  const int slices = has_group ? (k + kTile.k - 1) / kTile.k : 0;
  typename GemmStages<Problem>::A a(problem.a, tile.batch, begin, end);
  typename GemmStages<Problem>::B b(problem.b, has_group ? rows.group : 0, tile.n * kTile.n, n);
  gemm_run_slices(problem, tile, begin, tile.n * kTile.n, end, slices, a, b,
                  [&](int slice, Operand* a_slice, Operand* b_slice) {
                    a.fetch(a_slice, slice * kTile.k, k);
                    b.fetch(b_slice, slice * kTile.k, k);
                  });
}

// A tile of one group's matrix.
template <GroupedGemmProblem Problem>
CAUSEWAY_INLINE void grouped_gemm_sums(const Problem& problem, int task) {
  using Operand = typename Problem::Operand;
  constexpr GpuGemmTile kTile = Problem::kTile;
  const int m = static_cast<int>(problem.m), n = static_cast<int>(problem.n);
  const int slabs = static_cast<int>(problem.slabs);
  const GemmPosition tile(task, (m + kTile.m - 1) / kTile.m, (n + kTile.n - 1) / kTile.n, 1,
                          static_cast<int>(problem.batch));
  const auto rows_of = [&](int slab) {
    return rows_of_group(tile.batch, problem.k, [&](int64_t i) { return problem.offset(slab, i); });
  };
  int slices = 0;
  for (int slab = 0; slab < slabs; ++slab) {
    const GroupRows rows = rows_of(slab);
    slices += static_cast<int>((rows.end - rows.begin + kTile.k - 1) / kTile.k);
  }
  typename GemmStages<Problem>::A a(problem.a, 0, tile.m * kTile.m, m);
  typename GemmStages<Problem>::B b(problem.b, 0, tile.n * kTile.n, n);
  // Where the next slice begins, and where the rows of its slab end.
  int slab = -1, next = 0, end = 0;
  gemm_run_slices(problem, tile, tile.m * kTile.m, tile.n * kTile.n, m, slices, a, b,
                  [&](int, Operand* a_slice, Operand* b_slice) {
                    while (next >= end && slab + 1 < slabs) {
                      ++slab;
                      const GroupRows rows = rows_of(slab);
                      next = static_cast<int>(rows.begin);
                      end = static_cast<int>(rows.end);
                      a.matrix = problem.a.data + problem.a.batch_offset(slab);
                      b.matrix = problem.b.data + problem.b.batch_offset(slab);
                    }
                    a.fetch(a_slice, next, end);
                    b.fetch(b_slice, next, end);
                    next += kTile.k;
                  });
}

template <GroupedGemmProblem Problem>
CAUSEWAY_INLINE void grouped_gemm_run(const Problem& problem, int task) {
  if constexpr (Problem::kSumsRows) {
    grouped_gemm_sums(problem, task);
  } else {
    grouped_gemm_rows(problem, task);
  }
}
