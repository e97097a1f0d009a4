// Comparisons, choices, and operations on bools and bits. Comparisons give bool, and false when an operand is NaN
// (ne: true). No gradient passes through a comparison; where() passes it to the operand that was chosen.
#pragma once

#include "causeway/tensor/operand.h"

namespace causeway::tensor {

Tensor eq(const Operand& a, const Operand& b);
Tensor ne(const Operand& a, const Operand& b);
Tensor lt(const Operand& a, const Operand& b);
Tensor le(const Operand& a, const Operand& b);
Tensor gt(const Operand& a, const Operand& b);
Tensor ge(const Operand& a, const Operand& b);
inline Tensor operator<(const Operand& a, const Operand& b) { return lt(a, b); }
inline Tensor operator<=(const Operand& a, const Operand& b) { return le(a, b); }
inline Tensor operator>(const Operand& a, const Operand& b) { return gt(a, b); }
inline Tensor operator>=(const Operand& a, const Operand& b) { return ge(a, b); }

Tensor isnan(const Tensor& x);
Tensor isinf(const Tensor& x);
Tensor isfinite(const Tensor& x);

// condition (bool) ? a : b, each broadcast; a and b are promoted. An unchosen NaN does no harm to the value, but its
// gradient is 0 times what its own computation gives: keep that finite.
Tensor where(const Tensor& condition, const Operand& a, const Operand& b);
Tensor masked_fill(const Tensor& x, const Tensor& mask, const Operand& value);  // x's dtype

// Numbers count as true when not 0.
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_xor(const Tensor& a, const Tensor& b);
Tensor logical_not(const Tensor& x);

// Integers and bools.
Tensor bitwise_and(const Operand& a, const Operand& b);
Tensor bitwise_or(const Operand& a, const Operand& b);
Tensor bitwise_xor(const Operand& a, const Operand& b);
Tensor bitwise_not(const Tensor& x);
// Integers; the shift count is at least 0 and below the width of the type. The right shift keeps the sign.
Tensor bitwise_left_shift(const Operand& a, const Operand& b);
Tensor bitwise_right_shift(const Operand& a, const Operand& b);

}  // namespace causeway::tensor
