// What a GEMM is to the kernels of every mainloop, as concepts: a Problem, which code generation writes
// (codegen/gpu/dot_kernel.cpp). C[batch, m, n] = A[batch, m, k] B[batch, k, n]. What else a mainloop asks of it, a
// concept in the mainloop's header says.
#pragma once

#include "causeway/kernels/gpu/intrinsics.h"
#include "causeway/kernels/gpu/same_type.h"

// batch, m, n, k: static constexpr int64_t where they are known when the kernel is written, otherwise int64_t members.
// Operand: what is multiplied: bf16, f16, float, tf32 or F8Pair.
template <class P>
concept GemmWithSizes = requires(const P& problem) {
  typename P::Operand;
  { problem.batch } -> SameType<int64_t>;
  { problem.m } -> SameType<int64_t>;
  { problem.n } -> SameType<int64_t>;
  { problem.k } -> SameType<int64_t>;
};

// An operand in memory, of "lines" (rows of A, columns of B) along k. kContiguousInK: (line, k) is at
// line * stride + k, otherwise at k * stride + line.
template <class T>
concept GemmOperand = requires {
  { T::kContiguousInK } -> SameType<bool>;
};

// One that threads load. Element: Operand, or a narrower type that is converted to it. kAligned: data, stride and batch
// offsets are multiples of 16 bytes, and so is the contiguous extent: no 16-byte piece straddles an edge. data: the
// first element. stride: in elements; static constexpr int64_t where known. batch_offset(): elements from data to that
// batch's matrix.
template <class T>
concept LoadedGemmOperand = GemmOperand<T> && requires(const T& operand, int64_t batch) {
  { T::kAligned } -> SameType<bool>;
  { operand.data } -> SameType<const typename T::Element*>;
  { operand.stride } -> SameType<int64_t>;
  { operand.batch_offset(batch) } -> SameType<int64_t>;
};

// What follows the GEMM, of V = kStoreLanes (8, 4, 2 or 1; it divides n) neighbours of a row of C, the first at an
// n_index that is a multiple of V.
//   Fetched, FetchedColumns    V elements of each tensor that what follows reads where it stores, and of each with an
//                              element for a column, as a bias; kTensors: how many of them
//   fetch, fetch_columns       load them
//   store                      takes V neighbours; computes what follows, all loads first, and stores it
//   kSplits                    parts of k that blocks of their own sum; when more than one, float* workspace has their
//                              sums, [split][batch][m][n], which a second launch adds in order
template <class P>
concept GemmWithEpilogue = requires(const P& problem, int64_t batch, int64_t m, int64_t n,
                                    const float (&values)[P::kStoreLanes], typename P::Fetched& fetched,
                                    typename P::FetchedColumns& columns) {
  { P::kStoreLanes } -> SameType<int>;
  { P::kSplits } -> SameType<int>;
  problem.template fetch<P::kStoreLanes>(batch, m, n, fetched);
  problem.template fetch_columns<P::kStoreLanes>(n, columns);
  problem.store(batch, m, n, values, fetched, columns);
} && (P::kSplits == 1 || requires(const P& problem) {
                             { problem.workspace } -> SameType<float*>;
                           });
