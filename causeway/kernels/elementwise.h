// What generated loops call beside operators: math, conversions to integers, integer arithmetic, order-preserving keys
// for maxima, and the counter-based random numbers of random_bits.
#pragma once

#include "causeway/kernels/math.h"
#include "causeway/kernels/types.h"

CAUSEWAY_INLINE int64_t minimum(int64_t a, int64_t b) { return a < b ? a : b; }

// Asks for the lines of `count` elements from `first` on, which may be beyond the last one there is. Not unrolled: a
// kernel of many tensors would have thousands of prefetches in a row, over which LLVM's schedulers take seconds.
template <class Element>
CAUSEWAY_INLINE void prefetch_elements(const Element* first, int64_t count) {
  constexpr int64_t kLine = 64 / sizeof(Element);
#pragma clang loop unroll(disable)
  for (int64_t i = 0; i < count; i += kLine) __builtin_prefetch(first + i, 0, 3);
}

CAUSEWAY_INLINE int64_t clamp_index(int64_t index, int64_t size) {
  const int64_t last = index < size ? index : size - 1;
  return last < 0 ? 0 : last;
}

// From floats: truncation toward zero; saturates; NaN gives 0.
CAUSEWAY_INLINE int32_t cast_to_i32(float x) {
  const int32_t inside = static_cast<int32_t>(x >= 2147483648.0f || x < -2147483648.0f || x != x ? 0.0f : x);
  const int32_t high = x >= 2147483648.0f ? 2147483647 : inside;
  return x < -2147483648.0f ? -2147483647 - 1 : high;
}
CAUSEWAY_INLINE int64_t cast_to_i64(float x) {
  const bool over = x >= 9223372036854775808.0f, under = x < -9223372036854775808.0f;
  const int64_t inside = static_cast<int64_t>(over || under || x != x ? 0.0f : x);
  const int64_t high = over ? 9223372036854775807ll : inside;
  return under ? -9223372036854775807ll - 1 : high;
}
CAUSEWAY_INLINE int16_t cast_to_i16(float x) {
  const float bounded = x > 32767.0f ? 32767.0f : (x >= -32768.0f ? x : (x < 0.0f ? -32768.0f : 0.0f));
  return static_cast<int16_t>(static_cast<int32_t>(bounded));
}
CAUSEWAY_INLINE uint8_t cast_to_u8(float x) {
  const float bounded = x > 255.0f ? 255.0f : (x > 0.0f ? x : 0.0f);
  return static_cast<uint8_t>(static_cast<int32_t>(bounded));
}

// Integers saturate too.
CAUSEWAY_INLINE int32_t cast_to_i32(int64_t x) {
  const int64_t low = x < -2147483647 - 1 ? -2147483647 - 1 : x;
  return static_cast<int32_t>(low > 2147483647 ? 2147483647 : low);
}
CAUSEWAY_INLINE int32_t cast_to_i32(int32_t x) { return x; }
CAUSEWAY_INLINE int32_t cast_to_i32(int16_t x) { return x; }
CAUSEWAY_INLINE int32_t cast_to_i32(uint8_t x) { return x; }
CAUSEWAY_INLINE int64_t cast_to_i64(int32_t x) { return x; }
CAUSEWAY_INLINE int64_t cast_to_i64(int16_t x) { return x; }
CAUSEWAY_INLINE int64_t cast_to_i64(uint8_t x) { return x; }
CAUSEWAY_INLINE int16_t cast_to_i16(int64_t x) {
  return static_cast<int16_t>(x < -32768 ? -32768 : x > 32767 ? 32767 : x);
}
CAUSEWAY_INLINE int16_t cast_to_i16(int32_t x) { return cast_to_i16(int64_t{x}); }
CAUSEWAY_INLINE int16_t cast_to_i16(uint8_t x) { return x; }
CAUSEWAY_INLINE uint8_t cast_to_u8(int64_t x) { return static_cast<uint8_t>(x < 0 ? 0 : x > 255 ? 255 : x); }
CAUSEWAY_INLINE uint8_t cast_to_u8(int16_t x) { return static_cast<uint8_t>(x < 0 ? 0 : x > 255 ? 255 : x); }
CAUSEWAY_INLINE uint8_t cast_to_u8(int32_t x) { return static_cast<uint8_t>(x < 0 ? 0 : x > 255 ? 255 : x); }

// Integer arithmetic is defined for every operand: C++ leaves signed overflow, division by zero and wide shifts open,
// and processors differ. Results wrap as their type does.
template <class T>
CAUSEWAY_INLINE T add_integers(T a, T b) {
  return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
template <class T>
CAUSEWAY_INLINE T subtract_integers(T a, T b) {
  return static_cast<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
template <class T>
CAUSEWAY_INLINE T multiply_integers(T a, T b) {
  return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
template <class T>
CAUSEWAY_INLINE T negate_integer(T x) {
  return static_cast<T>(0 - static_cast<uint64_t>(x));
}
template <class T>
CAUSEWAY_INLINE T absolute_integer(T x) {
  return x < 0 ? negate_integer(x) : x;
}
// Truncating; 0 where the divisor is 0.
template <class T>
CAUSEWAY_INLINE T divide_integers(T a, T b) {
  const T divisor = b == 0 || b == -1 ? T(1) : b;
  const T quotient = static_cast<T>(a / divisor);
  return b == 0 ? T(0) : b == -1 ? negate_integer(a) : quotient;
}
template <class T>
CAUSEWAY_INLINE T integer_remainder(T a, T b) {
  const T divisor = b == 0 || b == -1 ? T(1) : b;
  return static_cast<T>(a % divisor);
}
// The count is taken modulo the type's width; to the right, the sign is kept.
template <class T>
CAUSEWAY_INLINE T shift_left(T x, T by) {
  return static_cast<T>(static_cast<uint64_t>(x) << (by & T(sizeof(T) * 8 - 1)));
}
template <class T>
CAUSEWAY_INLINE T shift_right(T x, T by) {
  return static_cast<T>(x >> (by & T(sizeof(T) * 8 - 1)));
}

// Integer keys in the order of floats, NaN above all: a maximum over keys vectorises and keeps NaN.
constexpr int32_t kLowestOrderKey = -2139095041;  // the key of -infinity
CAUSEWAY_INLINE int32_t order_key(float x) {
  const int32_t bits = static_cast<int32_t>(bits_from_float(x));
  const int32_t key = bits ^ ((bits >> 31) & 0x7fffffff);
  return x != x ? 0x7fc00000 : key;
}
CAUSEWAY_INLINE float from_order_key(int32_t key) {
  return float_from_bits(static_cast<uint32_t>(key ^ ((key >> 31) & 0x7fffffff)));
}

template <class T>
constexpr T lowest_value();
template <>
constexpr int32_t lowest_value<int32_t>() {
  return -2147483647 - 1;
}
template <>
constexpr int64_t lowest_value<int64_t>() {
  return -9223372036854775807ll - 1;
}
template <>
constexpr int16_t lowest_value<int16_t>() {
  return -32767 - 1;
}
template <>
constexpr uint8_t lowest_value<uint8_t>() {
  return 0;
}

struct PhiloxWords {
  uint32_t w0, w1, w2, w3;
};

// Philox-4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011): the words of a counter and a key.
CAUSEWAY_INLINE PhiloxWords philox_4x32_10(PhiloxWords c, uint32_t k0, uint32_t k1) {
#pragma clang loop unroll(full)
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = static_cast<uint64_t>(c.w0) * 0xd2511f53u;
    const uint64_t p1 = static_cast<uint64_t>(c.w2) * 0xcd9e8d57u;
    c = {static_cast<uint32_t>(p1 >> 32) ^ c.w1 ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c.w3 ^ k1, static_cast<uint32_t>(p0)};
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  return c;
}

CAUSEWAY_INLINE uint32_t low_word(int64_t value) { return static_cast<uint32_t>(value); }
CAUSEWAY_INLINE uint32_t high_word(int64_t value) { return static_cast<uint32_t>(static_cast<uint64_t>(value) >> 32); }

// Word 0, keyed by the seed; see random_bits in graph/graph.h.
CAUSEWAY_INLINE int32_t random_bits(int64_t seed, int64_t step, int64_t stream, int64_t element) {
  const PhiloxWords counter = {low_word(element), high_word(element), low_word(stream), low_word(step)};
  return static_cast<int32_t>(philox_4x32_10(counter, low_word(seed), high_word(seed)).w0);
}
