// Scalar math of kernel text: no tables, no calls, no branches, so that loops over it vectorise on every target.
//
// Errors are in units in the last place of the exact result and hold for every argument that is not excluded, results
// below 2^-126 included (the error is then in steps of 2^-149); NaN gives NaN, and infinities and signed zeros go where
// C's functions take them. Two-argument functions were measured on random arguments, all others on every float;
// tests/kernels/math_test.cpp repeats this on a sample. Fused multiply-adds are explicit, so that a result does not
// depend on what the compiler chooses to fuse.
//
// Methods: range reduction after Cody and Waite, and minimax polynomials (Muller, "Elementary Functions"), whose
// coefficients tools/fit_math_polynomials.py prints.
#pragma once

#include "causeway/kernels/types.h"

#if defined(__NVPTX__)
#include "causeway/kernels/gpu/nvidia_math.h"
#else
// NaN when either operand is NaN. max(-0, +0) is either zero. Of a constant, which comes second, one instruction on
// x86.
CAUSEWAY_INLINE float max_f32(float a, float b) {
  const float larger = b > a ? b : a;  // a when either is NaN
  return b != b ? b : larger;
}
CAUSEWAY_INLINE float min_f32(float a, float b) {
  const float smaller = b < a ? b : a;
  return b != b ? b : smaller;
}
CAUSEWAY_INLINE float reciprocal_f32(float x) { return 1.0f / x; }
CAUSEWAY_INLINE float reciprocal_of_normal_f32(float x) { return 1.0f / x; }
CAUSEWAY_INLINE float rsqrt_f32(float x) { return 1.0f / __builtin_sqrtf(x); }
#endif

CAUSEWAY_INLINE float with_sign_of(float magnitude, float x) {
  return float_from_bits((bits_from_float(magnitude) & 0x7fffffffu) | (bits_from_float(x) & 0x80000000u));
}

// Rounding to the nearest integer by addition: 1.5 2^23 + x, for |x| < 2^22, holds round(x) in its low bits.
constexpr float kRounder = 12582912.0f;
// The same, with the integer already biased as an exponent: the sum's bits shifted left by 23 are those of 2^round(x).
constexpr float kExponentRounder = 12582912.0f + 127.0f;

// a b + c, rounded once. x86 before AVX2 has no such instruction: there the product is exact and the sum rounds twice,
// to double and to float.
CAUSEWAY_INLINE float fma_f32(float a, float b, float c) {
#if defined(__x86_64__) && !defined(__FMA__)
  return static_cast<float>(static_cast<double>(a) * static_cast<double>(b) + static_cast<double>(c));
#else
  return __builtin_fmaf(a, b, c);
#endif
}
// The same of doubles; there, exact where the product has at most 53 bits.
CAUSEWAY_INLINE double fma_f64(double a, double b, double c) {
#if defined(__x86_64__) && !defined(__FMA__)
  return a * b + c;
#else
  return __builtin_fma(a, b, c);
#endif
}

// The float 2^n, where rounded = kExponentRounder + n and -127 <= n <= 127; 0 for n = -127.
CAUSEWAY_INLINE float power_of_rounded(float rounded) { return float_from_bits(bits_from_float(rounded) << 23); }

// 2^(2 n + f) for |f| <= 1, where rounded = kExponentRounder + n; n = -127 gives 0. Multiplying by 2^n twice reaches
// both ends of the range, and rounds once where the result is subnormal.
CAUSEWAY_INLINE float exp2_of_parts(float rounded, float f) {
  float p = 1.49169628e-05f;
  p = fma_f32(p, f, 0.000156452923f);
  p = fma_f32(p, f, 0.00133417198f);
  p = fma_f32(p, f, 0.00961684436f);
  p = fma_f32(p, f, 0.055503659f);
  p = fma_f32(p, f, 0.240226686f);
  p = fma_f32(p, f, 0.693147242f);
  p = fma_f32(p, f, 1.0f);
  const float scale = power_of_rounded(rounded);
  return p * scale * scale;
}

#if !defined(__NVPTX__)
// 2^x; 1.21 ulp.
CAUSEWAY_INLINE float exp2_f32(float x) {
  // Comparisons in this order keep NaN. 128 gives infinity, -254 gives 0 without a subnormal product on the way.
  const float below = 128.0f < x ? 128.0f : x;
  const float clamped = -254.0f > below ? -254.0f : below;
  const float rounded = fma_f32(clamped, 0.5f, kExponentRounder);
  const float n = rounded - kExponentRounder;
  return exp2_of_parts(rounded, fma_f32(n, -2.0f, clamped));
}
#endif

// x = 2^exponent (1 + t) for a positive, finite x, with 1 + t in [2/3, 4/3); t is exact.
struct SplitFloat {
  float exponent;
  float t;
};
CAUSEWAY_INLINE SplitFloat split_f32(float x) {
  const bool tiny = x < 1.17549435e-38f;
  const uint32_t bits = bits_from_float(tiny ? x * 16777216.0f : x);
  const uint32_t offset = bits - 0x3f2aaaabu;
  const float exponent = static_cast<float>(static_cast<int32_t>(offset) >> 23);
  const float mantissa = float_from_bits((offset & 0x7fffffu) + 0x3f2aaaabu);
  return {tiny ? exponent - 24.0f : exponent, mantissa - 1.0f};
}

// log2(x); 1.51 ulp; log2(0) = -infinity, NaN below 0.
CAUSEWAY_INLINE float log2_f32(float x) {
  const SplitFloat parts = split_f32(x);
  const float t = parts.t;
  float p = -0.177259058f;
  p = fma_f32(p, t, 0.188274622f);
  p = fma_f32(p, t, -0.177828014f);
  p = fma_f32(p, t, 0.20514448f);
  p = fma_f32(p, t, -0.240496248f);
  p = fma_f32(p, t, 0.288466364f);
  p = fma_f32(p, t, -0.3606745f);
  p = fma_f32(p, t, 0.480901897f);
  p = fma_f32(p, t, -0.721347511f);
  p = fma_f32(p, t, 1.44269502f);
  const float finite = fma_f32(p, t, parts.exponent);
  const float positive = x < __builtin_inff() ? finite : x;
  const float other = x < 0.0f ? __builtin_nanf("") : -__builtin_inff();
  return x <= 0.0f ? other : positive;
}

// x less the nearest multiple of pi/2.
struct Quadrant {
  uint32_t index;  // the multiple, modulo 4 in its lowest bits
  float r;
};
CAUSEWAY_INLINE Quadrant reduce_to_quadrant(float x) {
  const float rounded = fma_f32(x, 0.636619747f, kRounder);
  const float n = rounded - kRounder;
  // pi/2 in three parts, each rounded down: the first step is exact, and x = -0 stays -0.
  float r = fma_f32(n, -1.57079625f, x);
  r = fma_f32(n, -7.54978942e-08f, r);
  r = fma_f32(n, -5.39030253e-15f, r);
  // Only for huge x, where n is off: the polynomials would leave [-1, 1].
  r = 1.0f < r ? 1.0f : r;
  r = -1.0f > r ? -1.0f : r;
  return {bits_from_float(rounded), r};
}
// sin(index pi/2 + r).
CAUSEWAY_INLINE float sin_of_quadrant(uint32_t index, float r) {
  const float z = r * r;
  float s = -0.000195078828f;
  s = fma_f32(s, z, 0.00833210628f);
  s = fma_f32(s, z, -0.166666538f);
  s = fma_f32(s, z, 0.0f);  // +0 at z = 0, which keeps the sign of r = -0 below
  s = fma_f32(s, r, r);
  float c = 2.44312014e-05f;
  c = fma_f32(c, z, -0.00138873036f);
  c = fma_f32(c, z, 0.0416666456f);
  c = fma_f32(c, z, -0.5f);
  c = fma_f32(c, z, 1.0f);
  const float magnitude = (index & 1u) != 0 ? c : s;
  return float_from_bits(bits_from_float(magnitude) ^ ((index << 30) & 0x80000000u));
}
// sin(x) and cos(x); 1.55 ulp for |x| <= 1e5. Beyond, the error grows with |x|; the result stays in [-1, 1].
CAUSEWAY_INLINE float sin_f32(float x) {
  const Quadrant q = reduce_to_quadrant(x);
  return sin_of_quadrant(q.index, q.r);
}
CAUSEWAY_INLINE float cos_f32(float x) {
  const Quadrant q = reduce_to_quadrant(x);
  return sin_of_quadrant(q.index + 1u, q.r);
}

// tanh(x); 1.97 ulp, and within [-1, 1]. With e = (1 - exp(-2 |x|)) / 2: e / (1 - e).
CAUSEWAY_INLINE float tanh_f32(float x) {
  const float a = __builtin_fabsf(x);
  const float clamped = 9.5f < a ? 9.5f : a;
  // -a = n ln(2) / 2 + f; the constant's error, 3e-9 relative, is lost in the result where n is not 0.
  const float rounded = fma_f32(clamped, -2.88539004f, kExponentRounder);
  const float n = rounded - kExponentRounder;
  const float f = fma_f32(n, -0.346573591f, -clamped);
  float p = 0.0443861708f;
  p = fma_f32(p, f, 0.133860245f);
  p = fma_f32(p, f, 0.333339483f);
  p = fma_f32(p, f, 0.666661859f);
  p = fma_f32(p, f, 0.99999994f);
  p = fma_f32(p, f * f, f);
  const float scale = power_of_rounded(rounded);
  // Two roundings that do not share an error, which 1 - e would double.
  const float e = fma_f32(-p, scale, fma_f32(scale, -0.5f, 0.5f));
  const float one_minus_e = fma_f32(p, scale, fma_f32(scale, 0.5f, 0.5f));
  return with_sign_of(e / one_minus_e, x);
}

// erf(x); 1.94 ulp, and within [-1, 1]. 1 - 2^(a G(a)) for a = |x|, where a G(a) is log2(erfc(a)).
CAUSEWAY_INLINE float erf_f32(float x) {
  const float a = __builtin_fabsf(x);
  const float clamped = 4.0f < a ? 4.0f : a;
  float g = 1.29562941e-05f;
  g = fma_f32(g, clamped, -0.000166265658f);
  g = fma_f32(g, clamped, 0.000901137479f);
  g = fma_f32(g, clamped, -0.0023844582f);
  g = fma_f32(g, clamped, 0.000212266503f);
  g = fma_f32(g, clamped, 0.027641397f);
  g = fma_f32(g, clamped, -0.14827925f);
  g = fma_f32(g, clamped, -0.918447435f);
  g = fma_f32(g, clamped, -1.62790704f);
  const float rounded = fma_f32(g, clamped, kExponentRounder);
  const float n = rounded - kExponentRounder;
  const float f = fma_f32(g, clamped, -n);
  // 2^f - 1, accurate relative to itself; n = 0 for small a, where it is all there is.
  float p = 0.00015382086f;
  p = fma_f32(p, f, 0.00133873837f);
  p = fma_f32(p, f, 0.00961831119f);
  p = fma_f32(p, f, 0.0555036739f);
  p = fma_f32(p, f, 0.240226492f);
  p = fma_f32(f, 0.693147182f, p * (f * f));
  const float scale = power_of_rounded(rounded);
  return with_sign_of(fma_f32(p, scale, scale - 1.0f), x);
}

// 1 + erf(x), within 1.6e-7: with a = |x|, 2^(a G(a)) is erfc(a), and 0 for large a, as the last term decides. It takes
// half as many instructions as erf_f32, which is accurate relative to erf(x) near 0; beside 1 that is lost.
CAUSEWAY_INLINE float one_plus_erf_f32(float x) {
  const float a = __builtin_fabsf(x);
  float g = -4.53526627e-05f;
  g = fma_f32(g, a, 0.000445473124f);
  g = fma_f32(g, a, -0.0014893848f);
  g = fma_f32(g, a, -0.000774615735f);
  g = fma_f32(g, a, 0.0282535534f);
  g = fma_f32(g, a, -0.148481488f);
  g = fma_f32(g, a, -0.91841644f);
  g = fma_f32(g, a, -1.62790859f);
  const float complement = exp2_f32(g * a);
  return x < 0.0f ? complement : 2.0f - complement;
}

// x^y as C's pow, special values included; 1.5 ulp (the largest of 4 10^7 trials: 1.39). The logarithm's leading terms
// and y log2(x) are in double.
CAUSEWAY_INLINE float pow_f32(float x, float y) {
  const float a = __builtin_fabsf(x);
  const SplitFloat parts = split_f32(a);
  const float t = parts.t;
  float tail = 0.157439604f;
  tail = fma_f32(tail, t, -0.166099578f);
  tail = fma_f32(tail, t, 0.123594448f);
  tail = fma_f32(tail, t, -0.137462527f);
  tail = fma_f32(tail, t, 0.160887748f);
  tail = fma_f32(tail, t, -0.180805951f);
  tail = fma_f32(tail, t, 0.20607613f);
  tail = fma_f32(tail, t, -0.240433663f);
  tail = fma_f32(tail, t, 0.288539439f);
  const double wide = t;
  double p = tail;
  p = fma_f64(p, wide, -0.36067397861598022);
  p = fma_f64(p, wide, 0.48089834396174064);
  p = fma_f64(p, wide, -0.72134751956930654);
  p = fma_f64(p, wide, 1.4426950408923307);
  // The logarithms of 0, infinity and NaN; t is finite there too.
  const float exponent = a < __builtin_inff() ? parts.exponent : a;
  const double log = fma_f64(p, wide, static_cast<double>(a == 0.0f ? -__builtin_inff() : exponent));
  // A finite factor, so that the logarithm 0 gives 0.
  const float low = 3.40282347e+38f < y ? 3.40282347e+38f : y;
  const float factor = -3.40282347e+38f > low ? -3.40282347e+38f : low;
  const double product = log * static_cast<double>(factor);
  // The rest is exp2_f32 with the remainder f from the product in double.
  const double below = 128.0 < product ? 128.0 : product;
  const double clamped = -254.0 > below ? -254.0 : below;
  const float rounded = fma_f32(static_cast<float>(clamped), 0.5f, kExponentRounder);
  const double n = static_cast<double>(rounded - kExponentRounder);
  const float magnitude = exp2_of_parts(rounded, static_cast<float>(fma_f64(n, -2.0, clamped)));
  const float half = y * 0.5f;
  const bool integer = __builtin_floorf(y) == y;
  const bool odd = integer && __builtin_floorf(half) != half;
  const uint32_t sign = odd ? bits_from_float(x) & 0x80000000u : 0u;
  const float signed_result = float_from_bits(bits_from_float(magnitude) ^ sign);
  const bool undefined = x < 0.0f && a < __builtin_inff() && !integer;
  const float result = undefined ? __builtin_nanf("") : signed_result;
  return y == 0.0f || x == 1.0f ? 1.0f : result;
}

// C's fmod, exact for |x / y| < 2^29; beyond, only the sign and |result| < |y| are promised.
CAUSEWAY_INLINE float fmod_f32(float x, float y) {
  const double a = static_cast<double>(__builtin_fabsf(x));
  const double b = static_cast<double>(__builtin_fabsf(y));
  // The rounded quotient's whole part is right or one too large.
  const double remainder = fma_f64(-__builtin_floor(a / b), b, a);
  const double r = remainder < 0.0 ? remainder + b : remainder;
  const double bounded = r < 0.0 || r >= b ? 0.0 : r;
  return with_sign_of(static_cast<float>(a < b ? a : bounded), x);
}
