// What math.h defines elsewhere in arithmetic and NVIDIA's GPUs have instructions for. Loops over large tensors are
// bound by the instructions they issue, not by memory, when these are polynomials and IEEE divisions.
//
// Errors by NVIDIA's "Parallel Thread Execution ISA": ex2.approx 2 ulp, rcp.approx 1 ulp, rsqrt.approx a relative
// 2^-22.9. All of them keep infinities, NaN and subnormal arguments; powers and reciprocals below 2^-126 are 0: scaling
// them would cost each three instructions more.
#pragma once

#include "causeway/kernels/types.h"

CAUSEWAY_INLINE float max_f32(float a, float b) { return __nvvm_fmax_nan_f(a, b); }
CAUSEWAY_INLINE float min_f32(float a, float b) { return __nvvm_fmin_nan_f(a, b); }
CAUSEWAY_INLINE float exp2_f32(float x) { return __nvvm_ex2_approx_ftz_f(x); }
CAUSEWAY_INLINE float rsqrt_f32(float x) { return __nvvm_rsqrt_approx_f(x); }
// Of an x that is not subnormal. Not as asm text, between which the compiler merges no loads.
CAUSEWAY_INLINE float reciprocal_of_normal_f32(float x) { return __nvvm_rcp_approx_ftz_f(x); }
CAUSEWAY_INLINE float reciprocal_f32(float x) {
  const bool tiny = __builtin_fabsf(x) < 1.17549435e-38f;
  const float result = __nvvm_rcp_approx_ftz_f(tiny ? x * 16777216.0f : x);
  return tiny ? result * 16777216.0f : result;
}
