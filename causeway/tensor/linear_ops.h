// Matrix multiplication. Operands are floats, promoted to one dtype, which is that of the result; sums accumulate in
// f32.
#pragma once

#include "causeway/tensor/operand.h"

namespace causeway::tensor {

// As numpy.matmul: [..., m, k] x [..., k, n] with leading axes broadcast; a vector is a row on the left and a column on
// the right, and its axis vanishes. When the right operand is one matrix, the left one's leading axes and rows are
// flattened, so that the result, and each gradient, is a single GEMM.
Tensor matmul(const Tensor& a, const Tensor& b);
Tensor bmm(const Tensor& a, const Tensor& b);  // [B, m, k] x [B, k, n]
Tensor mv(const Tensor& matrix, const Tensor& vector);
Tensor dot(const Tensor& a, const Tensor& b);  // two vectors
Tensor outer(const Tensor& a, const Tensor& b);
// x [..., in] x weight [out, in]^T + bias [out]; the bias may be undefined.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});
// The layers of experts, each of whom multiplies rows of its own: rows [P, R, in], weights [E, out, in] as linear has
// them, offsets i32 [P, E + 1] -> [P, R, out]. Rows offsets[p, e] to offsets[p, e + 1] - 1 of slab p meet weight e;
// rows from offsets[p, E] on give 0, and no gradient. Each line of offsets begins with 0, never falls and ends at R at
// most. A slab is what one data shard routes by itself. Throws Error(kInvalidArgument) where shapes or types do not
// fit.
Tensor grouped_matmul(const Tensor& rows, const Tensor& weights, const Tensor& offsets);
// One or two operands, e.g. einsum("bthd,bshd->bhts", {q, k}). Each letter is an axis and occurs once in an operand; a
// letter missing from the result is summed over. Without "->" the result has the letters that occur once, in
// alphabetical order.
Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands);

}  // namespace causeway::tensor
