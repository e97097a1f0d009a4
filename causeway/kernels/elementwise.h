// What generated loops call beside operators: math, conversions to integers, integer shifts, order-preserving keys for
// maxima, and the counter-based random numbers of random_bits.
#pragma once

#include "causeway/kernels/math.h"
#include "causeway/kernels/types.h"

CAUSEWAY_INLINE int64_t minimum(int64_t a, int64_t b) { return a < b ? a : b; }

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
CAUSEWAY_INLINE int32_t cast_to_i32(uint8_t x) { return x; }
CAUSEWAY_INLINE int64_t cast_to_i64(int32_t x) { return x; }
CAUSEWAY_INLINE int64_t cast_to_i64(uint8_t x) { return x; }
CAUSEWAY_INLINE uint8_t cast_to_u8(int64_t x) { return static_cast<uint8_t>(x < 0 ? 0 : x > 255 ? 255 : x); }
CAUSEWAY_INLINE uint8_t cast_to_u8(int32_t x) { return static_cast<uint8_t>(x < 0 ? 0 : x > 255 ? 255 : x); }

CAUSEWAY_INLINE int32_t shift_left(int32_t x, int32_t by) { return static_cast<int32_t>(static_cast<uint32_t>(x) << by); }
CAUSEWAY_INLINE int64_t shift_left(int64_t x, int64_t by) { return static_cast<int64_t>(static_cast<uint64_t>(x) << by); }
CAUSEWAY_INLINE uint8_t shift_left(uint8_t x, uint8_t by) { return static_cast<uint8_t>(x << by); }
CAUSEWAY_INLINE int32_t shift_right(int32_t x, int32_t by) { return x >> by; }
CAUSEWAY_INLINE int64_t shift_right(int64_t x, int64_t by) { return x >> by; }
CAUSEWAY_INLINE uint8_t shift_right(uint8_t x, uint8_t by) { return static_cast<uint8_t>(x >> by); }

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
constexpr int32_t lowest_value<int32_t>() { return -2147483647 - 1; }
template <>
constexpr int64_t lowest_value<int64_t>() { return -9223372036854775807ll - 1; }
template <>
constexpr uint8_t lowest_value<uint8_t>() { return 0; }

// Word 0 of Philox-4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011), keyed by the seed; see random_bits in graph/graph.h.
CAUSEWAY_INLINE int32_t random_bits(int64_t seed, int64_t step, int64_t stream, int64_t element) {
  uint32_t c0 = static_cast<uint32_t>(element), c1 = static_cast<uint32_t>(static_cast<uint64_t>(element) >> 32);
  uint32_t c2 = static_cast<uint32_t>(stream), c3 = static_cast<uint32_t>(step);
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(static_cast<uint64_t>(seed) >> 32);
#pragma clang loop unroll(full)
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = static_cast<uint64_t>(c0) * 0xd2511f53u;
    const uint64_t p1 = static_cast<uint64_t>(c2) * 0xcd9e8d57u;
    const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const uint32_t n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  return static_cast<int32_t>(c0);
}
