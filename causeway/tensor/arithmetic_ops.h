// Elementwise arithmetic and mathematical functions. Operands are tensors or numbers, promoted and broadcast as
// tensor/operand.h says. Functions of real numbers take integers as f32 and compute narrow floats in f32, rounding the
// result once. All are differentiable by composition; where a derivative jumps, the comment says which side is taken.
//
// Relative error bounds in f32 of the functions that are not primitives, in units of 2^-23 (the spacing at 1):
//   exp 2 + 2|x|; log, log10 4; log1p 8 everywhere; expm1 8 where |x| <= 1, otherwise as exp; sinh 16, cosh as exp.
//   erfc: 8 absolute (1 - erf loses its relative accuracy beyond x = 2).
#pragma once

#include "causeway/tensor/operand.h"

namespace causeway::tensor {

Tensor add(const Operand& a, const Operand& b);
Tensor sub(const Operand& a, const Operand& b);
Tensor mul(const Operand& a, const Operand& b);
Tensor div(const Operand& a, const Operand& b);           // integers: as f32
Tensor floor_divide(const Operand& a, const Operand& b);  // rounded toward -infinity
Tensor remainder(const Operand& a, const Operand& b);     // the sign of b, as Python's %
Tensor fmod(const Operand& a, const Operand& b);          // the sign of a, as C
// A float base, or an integer base with a whole exponent of at least 0. Whole exponents up to 4 are multiplied out.
Tensor pow(const Operand& a, const Operand& b);
// NaN when either is. Where both are equal the gradient goes to a.
Tensor minimum(const Operand& a, const Operand& b);
Tensor maximum(const Operand& a, const Operand& b);
Tensor clamp(const Tensor& x, std::optional<Operand> low,
             std::optional<Operand> high);  // the gradient passes at bounds
Tensor clamp_min(const Tensor& x, const Operand& low);
Tensor clamp_max(const Tensor& x, const Operand& high);
Tensor lerp(const Tensor& start, const Tensor& end, const Operand& weight);  // start + weight (end - start)
Tensor logaddexp(const Operand& a, const Operand& b);

Tensor neg(const Tensor& x);
Tensor abs(const Tensor& x);  // derivative 0 at 0
Tensor sign(const Tensor& x);
Tensor square(const Tensor& x);
Tensor reciprocal(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor rsqrt(const Tensor& x);

Tensor exp(const Tensor& x);
Tensor exp2(const Tensor& x);
Tensor expm1(const Tensor& x);  // exp(x) - 1, accurate near 0
Tensor log(const Tensor& x);
Tensor log2(const Tensor& x);
Tensor log10(const Tensor& x);
Tensor log1p(const Tensor& x);  // log(1 + x), accurate near 0

Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tan(const Tensor& x);
Tensor sinh(const Tensor& x);
Tensor cosh(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor erf(const Tensor& x);
Tensor erfc(const Tensor& x);

// Integers are left as they are. Derivative 0, and 1 for frac.
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
Tensor round(const Tensor& x);  // half to even
Tensor trunc(const Tensor& x);
Tensor frac(const Tensor& x);  // x - trunc(x)

inline Tensor operator+(const Operand& a, const Operand& b) { return add(a, b); }
inline Tensor operator-(const Operand& a, const Operand& b) { return sub(a, b); }
inline Tensor operator*(const Operand& a, const Operand& b) { return mul(a, b); }
inline Tensor operator/(const Operand& a, const Operand& b) { return div(a, b); }
inline Tensor operator-(const Tensor& x) { return neg(x); }

}  // namespace causeway::tensor
