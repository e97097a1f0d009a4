// The vocabulary of kernel text: fixed-width integers, the storage types of tensors and their conversions.
// It includes nothing, so that the embedded compiler can read it for every target (x86-64, PTX, AMDGPU); an ordinary
// host program may include it too. Names are global: kernel text is one translation unit with no libraries around it.
//
// Conversions to float are exact. Conversions from float round to nearest, ties to even. All of them are free of
// branches and of calls, so that a loop over them vectorises.
#pragma once

#if defined(__CUDA__) || defined(__HIP__)
#define CAUSEWAY_INLINE __attribute__((always_inline, host, device)) inline
#else
#define CAUSEWAY_INLINE __attribute__((always_inline)) inline
#endif

typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __SIZE_TYPE__ size_t;

// N elements of T in one register (or as many registers as they take).
template <typename T, int N>
using Vector = T __attribute__((ext_vector_type(N)));

// bfloat16: the upper half of a float. Infinities and NaN (made quiet) are kept.
struct bf16 {
  uint16_t bits;
};

// IEEE 754 binary16.
typedef _Float16 f16;

// OCP 8-bit floating point (OFP8 revision 1.0), E4M3: bias 7, largest 448, NaN 0x7f and 0xff, no infinities.
struct f8e4m3 {
  uint8_t bits;
};

// OCP 8-bit floating point, E5M2: bias 15, largest finite 57344, infinities and NaN as in binary16.
struct f8e5m2 {
  uint8_t bits;
};

CAUSEWAY_INLINE float float_from_bits(uint32_t bits) { return __builtin_bit_cast(float, bits); }
CAUSEWAY_INLINE uint32_t bits_from_float(float value) { return __builtin_bit_cast(uint32_t, value); }

CAUSEWAY_INLINE float to_float(float value) { return value; }

CAUSEWAY_INLINE float to_float(bf16 value) {
#if defined(__NVPTX__)
  return static_cast<float>(__builtin_bit_cast(__bf16, value));  // so that rounding what is rounded costs nothing
#else
  return float_from_bits(static_cast<uint32_t>(value.bits) << 16);
#endif
}

CAUSEWAY_INLINE bf16 to_bf16(float value) {
#if defined(__NVPTX__)
  return __builtin_bit_cast(bf16, static_cast<__bf16>(value));  // one instruction
#else
  uint32_t bits = bits_from_float(value);
  uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  uint32_t quiet = (bits >> 16) | 0x40u;
  return bf16{static_cast<uint16_t>(value != value ? quiet : rounded)};
#endif
}
// Of a float that is one.
CAUSEWAY_INLINE bf16 exact_bf16(float value) { return bf16{static_cast<uint16_t>(bits_from_float(value) >> 16)}; }

// As to_float(to_bf16(value)), in one instruction: of a pair rounded together, here with a zero below, the upper half
// is the float already. The compiler does not see through it.
CAUSEWAY_INLINE float round_to_bf16(float value) {
#if defined(__NVPTX__)
  uint32_t above_zero;
  asm("cvt.rn.bf16x2.f32 %0, %1, 0f00000000;" : "=r"(above_zero) : "f"(value));
  return float_from_bits(above_zero);
#else
  return to_float(to_bf16(value));
#endif
}

CAUSEWAY_INLINE float to_float(f16 value) { return static_cast<float>(value); }
CAUSEWAY_INLINE f16 to_f16(float value) { return static_cast<f16>(value); }

// GPUs from sm_89 on have instructions for 8-bit floats, two at a time; in arithmetic a conversion takes a dozen.
#if defined(__NVPTX__) && CAUSEWAY_NVIDIA >= 90
#define CAUSEWAY_CONVERTS_F8 1
#endif

#if defined(CAUSEWAY_CONVERTS_F8)
CAUSEWAY_INLINE float to_float(f8e4m3 value) {
  uint32_t pair;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"(static_cast<uint16_t>(value.bits)));
  return static_cast<float>(__builtin_bit_cast(Vector<f16, 2>, pair)[0]);
}

CAUSEWAY_INLINE float to_float(f8e5m2 value) {
  uint32_t pair;
  asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(pair) : "h"(static_cast<uint16_t>(value.bits)));
  return static_cast<float>(__builtin_bit_cast(Vector<f16, 2>, pair)[0]);
}

// They saturate, as below. NaN becomes the one without a sign.
CAUSEWAY_INLINE f8e4m3 to_f8e4m3(float value) {
  uint16_t pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, 0f00000000, %1;" : "=h"(pair) : "f"(value));
  return f8e4m3{static_cast<uint8_t>(pair)};
}

CAUSEWAY_INLINE f8e5m2 to_f8e5m2(float value) {
  uint16_t pair;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, 0f00000000, %1;" : "=h"(pair) : "f"(value));
  return f8e5m2{static_cast<uint8_t>(pair)};
}

#else

CAUSEWAY_INLINE float to_float(f8e4m3 value) {
  uint32_t magnitude = value.bits & 0x7fu;
  uint32_t sign = static_cast<uint32_t>(value.bits & 0x80u) << 24;
  uint32_t normal = (magnitude << 20) + (120u << 23);
  // Below the smallest normal the code counts steps of 2^-9.
  uint32_t subnormal = bits_from_float(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-9f);
  uint32_t bits = magnitude < 8u ? subnormal : normal;
  bits = magnitude == 0x7fu ? 0x7fc00000u : bits;
  return float_from_bits(bits | sign);
}

CAUSEWAY_INLINE float to_float(f8e5m2 value) {
  uint32_t magnitude = value.bits & 0x7fu;
  uint32_t sign = static_cast<uint32_t>(value.bits & 0x80u) << 24;
  uint32_t normal = (magnitude << 21) + (112u << 23);
  uint32_t subnormal = bits_from_float(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-16f);
  uint32_t bits = magnitude < 4u ? subnormal : normal;
  bits = magnitude == 0x7cu ? 0x7f800000u : bits;
  bits = magnitude > 0x7cu ? 0x7fc00000u : bits;
  return float_from_bits(bits | sign);
}

// Saturates, as training wants: a magnitude above 448, infinity included, becomes 448. NaN stays NaN.
CAUSEWAY_INLINE f8e4m3 to_f8e4m3(float value) {
  uint32_t bits = bits_from_float(value);
  uint32_t sign = (bits >> 24) & 0x80u;
  uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t clamped = magnitude > 0x43e00000u ? 0x43e00000u : magnitude;
  uint32_t normal = ((clamped + 0x7ffffu + ((clamped >> 20) & 1u)) >> 20) - (120u << 3);
  // Adding 2^14 leaves the count of 2^-9 steps, correctly rounded, in the sum's low bits.
  uint32_t subnormal = bits_from_float(float_from_bits(clamped) + 0x1p14f) - bits_from_float(0x1p14f);
  uint32_t code = clamped < 0x3c800000u ? subnormal : normal;
  code = magnitude > 0x7f800000u ? 0x7fu : code;
  return f8e4m3{static_cast<uint8_t>(code | sign)};
}

// Saturates: a magnitude above 57344, infinity included, becomes 57344. NaN stays NaN.
CAUSEWAY_INLINE f8e5m2 to_f8e5m2(float value) {
  uint32_t bits = bits_from_float(value);
  uint32_t sign = (bits >> 24) & 0x80u;
  uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t clamped = magnitude > 0x47600000u ? 0x47600000u : magnitude;
  uint32_t normal = ((clamped + 0xfffffu + ((clamped >> 21) & 1u)) >> 21) - (112u << 2);
  // Adding 2^7 leaves the count of 2^-16 steps, correctly rounded, in the sum's low bits.
  uint32_t subnormal = bits_from_float(float_from_bits(clamped) + 0x1p7f) - bits_from_float(0x1p7f);
  uint32_t code = clamped < 0x38800000u ? subnormal : normal;
  code = magnitude > 0x7f800000u ? 0x7fu : code;
  return f8e5m2{static_cast<uint8_t>(code | sign)};
}

#endif

// A float that was rounded to an 8-bit one: what it is stored as is at hand.
template <class F8>
struct Rounded {
  F8 stored;
  CAUSEWAY_INLINE operator float() const { return to_float(stored); }
};
CAUSEWAY_INLINE f8e4m3 to_f8e4m3(Rounded<f8e4m3> value) { return value.stored; }
CAUSEWAY_INLINE f8e5m2 to_f8e5m2(Rounded<f8e5m2> value) { return value.stored; }
