// Operands of GEMMs that are float in memory and are rounded to tf32 (8 bits of exponent, 10 of mantissa) on
// their way into matrix instructions: NVIDIA's "tf32" since sm_80, CDNA 3's "xf32". They are rounded to the nearest,
// because the hardware drops the other bits (PTX ISA, "Alternate floating-point data formats"): those that a wave
// multiplies here, with ties away from zero, those of warpgroups by TMA, with ties to even
// (TensorMap::rounds_to_tf32).
#pragma once

#include "causeway/kernels/types.h"

struct tf32 {
  float value;  // of full precision
};

CAUSEWAY_INLINE float to_float(tf32 operand) { return operand.value; }

// The bits of the value rounded to tf32, as a float.
CAUSEWAY_INLINE uint32_t round_to_tf32(uint32_t bits) {
#if defined(__NVPTX__)
  uint32_t rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(float_from_bits(bits)));
  return rounded;
#else
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t quiet = magnitude > 0x7f800000u ? 0x400000u : 0u;
  return ((magnitude < 0x7f800000u ? bits + 0x1000u : bits) | quiet) & ~0x1fffu;
#endif
}
