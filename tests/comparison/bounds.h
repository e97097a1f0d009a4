// What results of kernels may differ by from the reference interpreter, which computes in f64 from the same rounded
// inputs and rounds each result once. The same on processors, emulators and silicon.
//
//   u = 2^-24 is half a unit in the last place of f32, h that of the operands (2^-9 for bf16, 2^-12 for f16).
//
// clang-format off
//   | Result                   | rms               | row         | ulps | Why                                          |
//   |--------------------------|-------------------|-------------|------|----------------------------------------------|
//   | exact                    | 0                 | 0           | 0    | moved, compared, chosen, whole numbers       |
//   | elementwise, f32         | 8 u               | 4 u         | 12   | functions are good to 1e-6; row: what cancels |
//   |   narrower               | 8 u + flips       | 4 u         | 1    |                                              |
//   | sum of k terms           | (4 + sqrt k) u    | 8 x its rms | 1    | roundings of partial sums are independent    |
//   | product over k terms     | as a sum          | as a sum    | 1    | products of narrow operands are exact        |
//   |   of 8-bit operands      | 2^-11             | 2^-8        | 1    | Hopper's matrix unit keeps 14 bits of a sum, over 512 terms: 2.7e-4 measured on an H200 |
//   | norms, softmax           | as a sum, doubled |             | 1    | quotients and differences of sums            |
//   | attention, f32           | 24 u              | 8 x its rms | 1    | exp2 of scores near 10: their last place     |
//   |   bf16 or f16            | 1.75 h + flips    | 21 h        | 1    | weights, gradients of scores and results are rounded to the operands' type |
//   |   f32 rounded to tf32    | 4 h + flips       | 48 h        | 1    | operands are rounded as well as what is made of them, h = 2^-12 |
//   |   logarithms of sums     | 16 u              | 8 x its rms | 1    | in f32 whatever the operands                 |
// clang-format on
//
// Flips, of every bound with ulps: kFlippedShare in comparison.h.
#pragma once

#include "causeway/graph/graph.h"
#include "tests/comparison/comparison.h"

namespace causeway::bounds {

inline constexpr Bound kExact = {};

// Of two graphs that both the interpreter evaluates, in f64.
inline constexpr Bound kInterpreted = {.rms = 1e-12, .row = 1e-10};

// The largest error is 8 times the rms, as in the table.
Bound of_rms(double rms, double ulps);

// A function of elements with a result of this type.
Bound elementwise(graph::DType result);

// Sums in f32 of `terms` terms, each rounded to f32 at most twice, and what is made of them by a few operations.
Bound sum(int64_t terms);

// Quotients and differences of such sums.
Bound normalized(int64_t terms);

// A GEMM of operands of this type over `terms`, and an epilogue of a few operations.
Bound product(graph::DType operand, int64_t terms);

// Results and gradients of attention on operands of this type; the logarithm of its sums of exponentials.
Bound attention(graph::DType operand);
Bound attention_log_sum();
// All of these, where f32 operands, too, are rounded to tf32.
Bound attention_in_tf32();

// For every output of a graph: its longest sum or product, and what is made of it by a few operations on elements.
Bound of_graph(const graph::Graph& graph, const graph::SymbolBindings& bindings = {});

// An error derived for this very tensor, as random graphs have.
Bound derived(double absolute);

// Of a gradient from central differences, which have no more than their own rounding where it is zero.
Bound of_differences(const graph::HostTensor& gradient, double rms);

}  // namespace causeway::bounds
