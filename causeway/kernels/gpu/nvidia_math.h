// What math.h defines elsewhere in arithmetic and NVIDIA's GPUs have instructions for. Loops over large tensors are
// bound by the instructions they issue, not by memory, when these are polynomials and IEEE divisions.
//
// Errors by NVIDIA's "Parallel Thread Execution ISA": ex2.approx 2 ulp, rcp.approx 1 ulp, rsqrt.approx a relative
// 2^-22.9. All of them keep infinities and NaN, and subnormal arguments and results but for powers below 2^-126, which
// are 0: scaling them would cost each power three instructions more.
#pragma once

#include "causeway/kernels/types.h"

CAUSEWAY_INLINE float max_f32(float a, float b) { return __nvvm_fmax_nan_f(a, b); }
CAUSEWAY_INLINE float min_f32(float a, float b) { return __nvvm_fmin_nan_f(a, b); }
CAUSEWAY_INLINE float exp2_f32(float x) { return __nvvm_ex2_approx_ftz_f(x); }
CAUSEWAY_INLINE float rsqrt_f32(float x) { return __nvvm_rsqrt_approx_f(x); }
CAUSEWAY_INLINE float reciprocal_f32(float x) {
  float result;
  asm("rcp.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
