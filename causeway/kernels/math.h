// Scalar math of kernel text: no tables, no calls, no branches, so that loops over it vectorise on every target. Error
// bounds are over all finite inputs unless said otherwise and are checked in tests/kernels/math_test.cpp.
// Methods: Cody and Waite range reduction with minimax polynomials (Muller, "Elementary Functions").
#pragma once

#include "causeway/kernels/types.h"

// NaN when either operand is NaN.
CAUSEWAY_INLINE float max_f32(float a, float b) { return (a > b) | (a != a) ? a : b; }
CAUSEWAY_INLINE float min_f32(float a, float b) { return (a < b) | (a != a) ? a : b; }

// 2^x; 2 ulp; overflows to infinity, results below 2^-126 lose precision gradually, then are 0.
CAUSEWAY_INLINE float exp2_f32(float x) {
  const float clamped = min_f32(max_f32(x, -160.0f), 160.0f);
  const float whole = __builtin_floorf(clamped + 0.5f);
  const float f = clamped - whole;  // [-0.5, 0.5]
  float p = 1.5353362e-4f;
  p = p * f + 1.3398874e-3f;
  p = p * f + 9.6184373e-3f;
  p = p * f + 5.5503324e-2f;
  p = p * f + 2.4022648e-1f;
  p = p * f + 6.9314718e-1f;
  p = p * f + 1.0f;
  // Two steps, so that the scale stays representable at both ends.
  const int32_t exponent = static_cast<int32_t>(whole != whole ? 0.0f : whole);
  const int32_t half = exponent >> 1;
  const float first = float_from_bits(static_cast<uint32_t>(half + 127) << 23);
  const float second = float_from_bits(static_cast<uint32_t>(exponent - half + 127) << 23);
  return p * first * second;
}

// log2(x); 2 ulp; log2(0) = -infinity, NaN below 0.
CAUSEWAY_INLINE float log2_f32(float x) {
  const bool tiny = x < 1.17549435e-38f;
  const float scaled = tiny ? x * 8388608.0f : x;
  const uint32_t bits = bits_from_float(scaled);
  // The exponent is chosen so that the mantissa lies in [sqrt(1/2), sqrt(2)).
  const int32_t exponent = (static_cast<int32_t>(bits) - 0x3f3504f3) >> 23;
  const float m = float_from_bits(bits - (static_cast<uint32_t>(exponent) << 23));
  const float e = static_cast<float>(exponent) - (tiny ? 23.0f : 0.0f);
  // log(m) = 2 atanh(s) with s = (m - 1) / (m + 1).
  const float t = m - 1.0f;
  const float s = t / (m + 1.0f);
  const float z = s * s;
  float p = 0.24279078f;
  p = p * z + 0.28498786f;
  p = p * z + 0.40000972f;
  p = p * z + 0.66666663f;
  // log(m) = t - s * (t - 2/3.. s^2 ..), which keeps the leading term exact.
  const float r = t - s * (t - z * p);
  float result = e + r * 1.44269504f;
  const float correction = r * 1.9259630e-8f;
  result = result + correction;
  result = x == 0.0f ? -__builtin_inff() : result;
  result = x < 0.0f ? __builtin_nanf("") : result;
  return x == __builtin_inff() || x != x ? x : result;
}

// sin and cos; 2 ulp or 1e-7 absolute for |x| <= 1e5, degrading beyond.
CAUSEWAY_INLINE float sin_of_quadrants(float x, int32_t shift) {
  const float turns = __builtin_floorf(x * 0.636619772f + 0.5f);
  float r = __builtin_fmaf(turns, -1.5707963109016418f, x);
  r = __builtin_fmaf(turns, -1.5893254712295857e-8f, r);
  r = __builtin_fmaf(turns, -6.0770999344e-17f, r);
  const int32_t quadrant = static_cast<int32_t>(turns - 4.0f * __builtin_floorf(turns * 0.25f)) + shift;
  const float z = r * r;
  float s = 2.718121e-6f;
  s = s * z - 1.9839334e-4f;
  s = s * z + 8.3333293e-3f;
  s = s * z - 1.6666667e-1f;
  s = r + r * z * s;
  float c = 2.4433157e-5f;
  c = c * z - 1.3887316e-3f;
  c = c * z + 4.1666646e-2f;
  c = 1.0f - 0.5f * z + z * z * c;
  const float magnitude = (quadrant & 1) != 0 ? c : s;
  return (quadrant & 2) != 0 ? -magnitude : magnitude;
}
CAUSEWAY_INLINE float sin_f32(float x) { return sin_of_quadrants(x, 0); }
CAUSEWAY_INLINE float cos_f32(float x) { return sin_of_quadrants(x, 1); }

// tanh(x); 3 ulp.
CAUSEWAY_INLINE float tanh_f32(float x) {
  const float magnitude = __builtin_fabsf(x);
  const float z = x * x;
  // Odd polynomial near zero, where 1 - 2 / (e + 1) would cancel.
  float p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  const float small = x + x * z * p;
  const float e = exp2_f32(2.88539008f * magnitude);
  const float large = 1.0f - 2.0f / (e + 1.0f);
  const float result = magnitude < 0.625f ? small : (x < 0.0f ? -large : large);
  return x != x ? x : result;
}

// erf(x); 4e-7 relative. Complementary form of Abramowitz and Stegun 7.1.26's kind, refitted (Numerical Recipes, erfc
// Chebyshev), away from zero; a Taylor polynomial near it.
CAUSEWAY_INLINE float erf_f32(float x) {
  const float magnitude = __builtin_fabsf(x);
  const float z = x * x;
  float p = 7.853861353153693e-5f;
  p = p * z - 8.010193625184903e-4f;
  p = p * z + 5.188327685732524e-3f;
  p = p * z - 2.685381193529856e-2f;
  p = p * z + 1.128358514861418e-1f;
  p = p * z - 3.761262582423300e-1f;
  p = p * z + 1.128379165726710f;
  const float small = x * p;
  const float t = 1.0f / (1.0f + 0.5f * magnitude);
  float q = 0.17087277f;
  q = q * t - 0.82215223f;
  q = q * t + 1.48851587f;
  q = q * t - 1.13520398f;
  q = q * t + 0.27886807f;
  q = q * t - 0.18628806f;
  q = q * t + 0.09678418f;
  q = q * t + 0.37409196f;
  q = q * t + 1.00002368f;
  q = q * t - 1.26551223f;
  const float tail = t * exp2_f32((q - z) * 1.44269504f);
  const float large = 1.0f - tail;
  return magnitude < 1.0f ? small : (x < 0.0f ? -large : large);
}

// x^y; as exp2(y log2 |x|): relative error grows with |y log2 x|. Negative x with integer y as C.
CAUSEWAY_INLINE float pow_f32(float x, float y) {
  const float magnitude = exp2_f32(y * log2_f32(__builtin_fabsf(x)));
  const bool integer = __builtin_floorf(y) == y;
  const bool odd = integer && (__builtin_floorf(y * 0.5f) * 2.0f != y);
  float result = x < 0.0f ? (integer ? (odd ? -magnitude : magnitude) : __builtin_nanf("")) : magnitude;
  result = y == 0.0f || x == 1.0f ? 1.0f : result;
  return result;
}

// C fmod for quotients below 2^24; the sign is x's.
CAUSEWAY_INLINE float fmod_f32(float x, float y) {
  const float quotient = x / y;
  const float whole = quotient < 0.0f ? -__builtin_floorf(-quotient) : __builtin_floorf(quotient);
  float r = __builtin_fmaf(-whole, y, x);
  const float step = (x < 0.0f) != (r < 0.0f) && r != 0.0f ? ((r < 0.0f) == (y < 0.0f) ? -y : y) : 0.0f;
  r += step;
  return r;
}
