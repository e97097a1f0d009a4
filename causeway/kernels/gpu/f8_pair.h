// 8-bit operands of GEMMs, two neighbours along k at a time: text that multiplies 16-bit operands multiplies
// them too, as the matrix instructions of both vendors lay out bytes along k, whatever a byte or two of them mean.
//
// CDNA 3 knows the "FNUZ" formats alone: of the codes of the OCP formats, which tensors have here on every device, the
// bytes mean half the value (an exponent bias of one more), but -0, which is not a number there, and infinities and
// not-a-numbers, which are numbers. Those bytes are exchanged when operands are loaded; products are exact but for a
// factor of four. (OCP 8-bit Floating Point Specification 1.0; CDNA 3 ISA document, "FP8 and BF8 formats".)
#pragma once

#include "causeway/kernels/types.h"

// Elements of an MMA of EA and EB (f8e4m3 or f8e5m2 each), in A or in B.
template <class EA, class EB>
struct F8Pair {
  using A = EA;
  using B = EB;
  uint16_t bits;
};

template <class T>
constexpr bool kIsF8Pair = false;
template <class EA, class EB>
constexpr bool kIsF8Pair<F8Pair<EA, EB>> = true;

// What the sum of products of an operand type, as matrix instructions give it, has to be multiplied by.
#if defined(CAUSEWAY_NVIDIA)
template <class T>
constexpr float kMmaFactor = 1;
#else
template <class T>
constexpr float kMmaFactor = kIsF8Pair<T> ? 4 : 1;
#endif

// Four codes of OCP type E as the FNUZ codes of half their values; infinities become not a number.
template <class E>
CAUSEWAY_INLINE uint32_t to_fnuz(uint32_t codes) {
  constexpr uint32_t kSigns = 0x80808080u;
  constexpr uint32_t kNoNumber = __is_same(E, f8e4m3) ? 0x7f : 0x7c;  // the first magnitude that is none
  const uint32_t magnitudes = codes & ~kSigns;
  const uint32_t not_zero = (magnitudes + 0x7f7f7f7fu) & kSigns;
  const uint32_t no_number = (magnitudes + (0x80u - kNoNumber) * 0x01010101u) & kSigns;
  const uint32_t no_number_bytes = (no_number << 1) - (no_number >> 7);
  return (((codes & kSigns & not_zero) | magnitudes) & ~no_number_bytes) | no_number;
}
