// Vectors of 32-bit lanes, as wide as the machine's registers, for hand-written kernel text on x86-64.
//
// The level is taken from the compiler's predefined macros, or from CAUSEWAY_X86_LEVEL when a test asks for a lower
// one:
//   0  portable: 4 lanes, multiply then add
//   1  AVX2 and FMA: 8 lanes
//   2  AVX-512 (F, BW, DQ, VL): 16 lanes
//   3  AVX-512 BF16: level 2 and a dot product of bf16 pairs
#pragma once

#include "causeway/kernels/types.h"

#ifndef CAUSEWAY_X86_LEVEL
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#ifdef __AVX512BF16__
#define CAUSEWAY_X86_LEVEL 3
#else
#define CAUSEWAY_X86_LEVEL 2
#endif
#elif defined(__AVX2__) && defined(__FMA__)
#define CAUSEWAY_X86_LEVEL 1
#else
#define CAUSEWAY_X86_LEVEL 0
#endif
#endif

constexpr int kLanes = CAUSEWAY_X86_LEVEL >= 2 ? 16 : CAUSEWAY_X86_LEVEL == 1 ? 8 : 4;
// Whether accumulate_pairs is one instruction; without it bf16 operands are best widened to float beforehand.
constexpr bool kHasPairDot = CAUSEWAY_X86_LEVEL >= 3;

using FloatLanes = Vector<float, kLanes>;
using WordLanes = Vector<uint32_t, kLanes>;

template <class T, T... kNumbers>
struct LaneNumbers {};
using AllLanes = __make_integer_seq<LaneNumbers, int, kLanes>;

CAUSEWAY_INLINE FloatLanes load_lanes(const float* from) {
  FloatLanes lanes;
  __builtin_memcpy(&lanes, from, sizeof(lanes));
  return lanes;
}

CAUSEWAY_INLINE WordLanes load_lanes(const uint32_t* from) {
  WordLanes lanes;
  __builtin_memcpy(&lanes, from, sizeof(lanes));
  return lanes;
}

CAUSEWAY_INLINE void store_lanes(float* to, FloatLanes lanes) { __builtin_memcpy(to, &lanes, sizeof(lanes)); }
CAUSEWAY_INLINE void store_lanes(uint32_t* to, WordLanes lanes) { __builtin_memcpy(to, &lanes, sizeof(lanes)); }

CAUSEWAY_INLINE FloatLanes splat_lanes(float value) { return FloatLanes(value); }

// a * b + c, fused where the machine can.
CAUSEWAY_INLINE FloatLanes multiply_add(FloatLanes a, FloatLanes b, FloatLanes c) {
#if CAUSEWAY_X86_LEVEL >= 1
  return __builtin_elementwise_fma(a, b, c);
#else
  return a * b + c;
#endif
}

#if CAUSEWAY_X86_LEVEL >= 3
// For each lane: sum + a.low * b.low + a.high * b.high, where a word is two bf16, the first in the low half.
// The instruction (VDPBF16PS) treats subnormals as zero.
CAUSEWAY_INLINE FloatLanes accumulate_pairs(WordLanes a, WordLanes b, FloatLanes sum) {
  using Pairs = Vector<__bf16, 32>;
  return __builtin_ia32_dpbf16ps_512(sum, __builtin_bit_cast(Pairs, a), __builtin_bit_cast(Pairs, b));
}
#endif

// The sum of the lanes, by halves: the same order at every call.
template <int kCount>
CAUSEWAY_INLINE float sum_halves(Vector<float, kCount> lanes) {
  if constexpr (kCount == 2) {
    return lanes.lo + lanes.hi;
  } else {
    return sum_halves<kCount / 2>(lanes.lo + lanes.hi);
  }
}
CAUSEWAY_INLINE float sum_lanes(FloatLanes lanes) { return sum_halves<kLanes>(lanes); }

// The even (kOdd 0) or odd (kOdd 1) blocks of kBlock lanes of `a`, then of `b`.
template <int kBlock, int kOdd, int... kLane>
CAUSEWAY_INLINE FloatLanes take_blocks(FloatLanes a, FloatLanes b, LaneNumbers<int, kLane...>) {
  return __builtin_shufflevector(a, b, (kLane / kBlock * 2 + kOdd) * kBlock + kLane % kBlock...);
}

// sum_lanes of every vector, in one: the vector's number is the lane. Leaves others behind in `vectors`.
template <int kBlock = kLanes / 2>
CAUSEWAY_INLINE FloatLanes sum_lanes_of(FloatLanes (&vectors)[kLanes]) {
  constexpr AllLanes kAll;
#pragma clang loop unroll(full)
  for (int i = 0; i < kBlock; ++i) {
    const FloatLanes a = vectors[2 * i], b = vectors[2 * i + 1];
    vectors[i] = take_blocks<kBlock, 0>(a, b, kAll) + take_blocks<kBlock, 1>(a, b, kAll);
  }
  if constexpr (kBlock == 1) {
    return vectors[0];
  } else {
    return sum_lanes_of<kBlock / 2>(vectors);
  }
}

// The largest lane. Which is chosen is unspecified when a lane is NaN.
CAUSEWAY_INLINE float max_lanes(FloatLanes lanes) {
  float values[kLanes];
  store_lanes(values, lanes);
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) values[i] = values[i] > values[i + half] ? values[i] : values[i + half];
  }
  return values[0];
}

// The bits of a float rounded to bf16 (nearest, ties to even), in the low half of a word.
CAUSEWAY_INLINE uint32_t bf16_bits(float value) {
#if CAUSEWAY_X86_LEVEL >= 3
  return __builtin_bit_cast(uint16_t, static_cast<__bf16>(value));
#else
  return to_bf16(value).bits;
#endif
}

// Transposes kRows (a power of two, at most kLanes) rows of kLanes words in place: word (row, lane) goes to position
// lane * kRows + row of the rows laid end to end. Each stage riffles the first half of the rows with the second.
template <int kRows>
CAUSEWAY_INLINE void transpose_words(WordLanes (&rows)[kRows]) {
#pragma clang loop unroll(full)
  for (int stage = 1; stage < kRows; stage *= 2) {
    WordLanes mixed[kRows];
#pragma clang loop unroll(full)
    for (int i = 0; i < kRows / 2; ++i) {
      WordLanes first = rows[i];
      WordLanes second = rows[i + kRows / 2];
#if CAUSEWAY_X86_LEVEL >= 2
      mixed[2 * i] = __builtin_shufflevector(first, second, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      mixed[2 * i + 1] =
          __builtin_shufflevector(first, second, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
#elif CAUSEWAY_X86_LEVEL == 1
      mixed[2 * i] = __builtin_shufflevector(first, second, 0, 8, 1, 9, 2, 10, 3, 11);
      mixed[2 * i + 1] = __builtin_shufflevector(first, second, 4, 12, 5, 13, 6, 14, 7, 15);
#else
      mixed[2 * i] = __builtin_shufflevector(first, second, 0, 4, 1, 5);
      mixed[2 * i + 1] = __builtin_shufflevector(first, second, 2, 6, 3, 7);
#endif
    }
#pragma clang loop unroll(full)
    for (int i = 0; i < kRows; ++i) rows[i] = mixed[i];
  }
}
