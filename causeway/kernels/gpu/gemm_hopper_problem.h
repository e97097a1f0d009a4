// What a GEMM is to gemm_hopper.h beside what gemm_problem.h says of all.
//
// Tensor maps: maps[0] is of A, maps[1] of B; those of what TMA stores follow, then those of what is read at its
// place, then these once more if hopper_gemm_last_stored_columns() is not 0, in boxes of so many columns. Dimension 0
// of an operand is the contiguous one (k or the line), 1 the other; batches follow. Boxes are 64 elements of dimension
// 0 (128 bytes, swizzled alike) by kHopperGemmDepth of dimension 1 where lines are contiguous, otherwise by
// hopper_gemm_loaded_lines(). What is out of range reads as zero. Those of the result are n, m and the batch, in boxes
// of hopper_gemm_stored_columns() by kHopperGemmStoredRows by 1, swizzled by as
// many bytes as a whole one's columns are: 128, of what is read of half as many bytes an element 64.
#pragma once

#include "causeway/kernels/gpu/gemm_hopper_layout.h"
#include "causeway/kernels/gpu/gemm_problem.h"
#include "causeway/kernels/gpu/hopper.h"

// An operand that TMA loads: a box, from element (contiguous, other) of a batch's matrix on. Where blocks of a cluster
// share lines, load_multicast() takes the same and the blocks' mask.
template <class T>
concept TmaGemmOperand = GemmOperand<T> && requires(const T& operand, void* shared, const TensorMapBytes* map,
                                                    Mbarrier* barrier, int contiguous, int other, int64_t batch) {
  operand.load(shared, map, barrier, contiguous, other, batch);
};
template <class T>
concept MulticastGemmOperand =
    TmaGemmOperand<T> && requires(const T& operand, void* shared, const TensorMapBytes* map, Mbarrier* barrier,
                                  int contiguous, int other, int64_t batch, uint16_t block_mask) {
      operand.load_multicast(shared, map, barrier, contiguous, other, batch, block_mask);
    };

// What is fetched may also be prefetched: visit(pointer) of what fetch() reads there, its neighbours beside it.
template <class P>
concept GemmWithPrefetch =
    P::Fetched::kTensors == 0 || requires(const P& problem, int64_t batch, int64_t m, int64_t n,
                                          void (*visit)(const void*)) { problem.for_each_fetched(batch, m, n, visit); };

// TMA stores the results: one tensor, with at most one of as many bytes an element read at its place or, beside f32,
// two of 16 bits, whose values Fetched has one after the other; or two of one type with none.
//   TmaStored, kTmaStored              what is stored, bf16, f16 or float, and how many tensors of it
//   TmaFetched                         what is read, where that has fewer bytes
//   FetchedRow, fetch_row    an element of each tensor that has one for a row
//   finish                   what follows, of V neighbours; rounded to TmaStored when it is stored
template <class P>
concept GemmStoredByTma = requires(const P& problem, int64_t m, const float (&values)[2],
                                   const typename P::Fetched& fetched, typename P::FetchedRow& row,
                                   const typename P::FetchedColumns& columns, float (&results)[P::kTmaStored][2]) {
  typename P::TmaStored;
  problem.fetch_row(m, row);
  problem.finish(values, fetched, row, columns, results);
};

// Scales of blocks of 8-bit operands (graph.h, scaled_dot): lines that share one, 1 or 128; and a_scale(line, block) of
// 128 of k each, behind which are those of the next lines where each has one.
template <class P>
concept GemmWithScales = requires(const P& problem, int64_t line, int64_t block) {
  { P::kALinesOfScale } -> SameType<int>;
  { P::kBLinesOfScale } -> SameType<int>;
  { problem.a_scale(line, block) } -> SameType<const float*>;
  { problem.b_scale(line, block) } -> SameType<const float*>;
};

// kTile: where it is swapped, A, B, m and n are those of C^T = B^T A^T; what concerns C is as it lies.
// kWholeTiles: with kSplits above 1, how many of the first tiles are not split; the workspace has the sums of the
// others, by tiles, and hopper_gemm_combine adds them.
// kBeginsEarly: there where the kernel is a CAUSEWAY_EARLY_KERNEL, of as many blocks as tiles and parts of tiles. B (A
// where it is swapped), which no launch of the program writes, is loaded while launches before it end.
template <class P>
concept HopperGemmProblem =
    GemmWithSizes<P> && GemmWithEpilogue<P> && GemmWithPrefetch<P> && TmaGemmOperand<typename P::A> &&
    TmaGemmOperand<typename P::B> && SameType<decltype(P::kTile), HopperGemmTile> &&
    (P::kTile.cluster_n == 1 || MulticastGemmOperand<typename P::A>) &&
    (P::kTile.cluster_m == 1 || MulticastGemmOperand<typename P::B>) && requires {
      { P::kWholeTiles } -> SameType<int>;
    };
