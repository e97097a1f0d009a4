// Neighbouring elements that one thread holds, written as one vector. Loads of neighbouring elements merge on their
// own.
#pragma once

#include "causeway/kernels/gpu/intrinsics.h"

template <int kBytes>
struct BitsOfSize;
template <>
struct BitsOfSize<1> {
  typedef uint8_t Type;
};
template <>
struct BitsOfSize<2> {
  typedef uint16_t Type;
};
template <>
struct BitsOfSize<4> {
  typedef uint32_t Type;
};
template <>
struct BitsOfSize<8> {
  typedef uint64_t Type;
};

// `to` is a multiple of kLanes * sizeof(T), or of 16.
template <int kLanes, class T>
CAUSEWAY_INLINE void store_lanes(T* to, const T (&values)[kLanes]) {
  if constexpr (kLanes == 1) {
    *to = values[0];
  } else {
    typedef typename BitsOfSize<sizeof(T)>::Type Bits;
    constexpr int kStep = kLanes * sizeof(T) > 16 ? 16 / sizeof(T) : kLanes;
    typedef Vector<Bits, kStep> Packed;
#pragma clang loop unroll(full)
    for (int first = 0; first < kLanes; first += kStep) {
      if constexpr (sizeof(T) == 1 && kStep >= 8) {
        // As words: the back end stores a vector of bytes four at a time.
        Vector<uint32_t, kStep / 4> words = 0;
#pragma clang loop unroll(full)
        for (int i = 0; i < kStep; ++i)
          words[i / 4] |= static_cast<uint32_t>(__builtin_bit_cast(Bits, values[first + i])) << i % 4 * 8;
        *reinterpret_cast<Vector<uint32_t, kStep / 4>*>(to + first) = words;
      } else {
        Packed packed;
#pragma clang loop unroll(full)
        for (int i = 0; i < kStep; ++i) packed[i] = __builtin_bit_cast(Bits, values[first + i]);
        *reinterpret_cast<Packed*>(to + first) = packed;
      }
    }
  }
}
