// What all pairs of a block of queries and of keys can give in a mask function: interval arithmetic over its integers.
// Elements of tensors are read, of which a block has few beside its pairs.
// Results that 32 bits do not hold may be anything.
#pragma once

#include "causeway/kernels/interval.h"

using Range = Interval<int64_t>;

constexpr Range kAnyTruth = {0, 1};
constexpr Range kAnyInt32 = {-(int64_t{1} << 31), (int64_t{1} << 31) - 1};

CAUSEWAY_INLINE Range range_in_int32(const Range& a) {
  return a.low < kAnyInt32.low || a.high > kAnyInt32.high ? kAnyInt32 : a;
}
CAUSEWAY_INLINE Range range_neg(const Range& a) { return range_in_int32(interval_neg(a)); }
CAUSEWAY_INLINE Range range_add(const Range& a, const Range& b) { return range_in_int32(interval_add(a, b)); }
CAUSEWAY_INLINE Range range_sub(const Range& a, const Range& b) { return range_in_int32(interval_sub(a, b)); }
CAUSEWAY_INLINE Range range_mul(const Range& a, const Range& b) { return range_in_int32(interval_mul(a, b)); }
CAUSEWAY_INLINE Range range_abs(const Range& a) { return interval_abs(a, range_neg(a)); }
// Of truths.
CAUSEWAY_INLINE Range range_xor(const Range& a, const Range& b) {
  if (!a.is_point() || !b.is_point()) return kAnyTruth;
  return {a.low ^ b.low, a.low ^ b.low};
}

// Whether it is one index of an axis.
CAUSEWAY_INLINE bool is_one_index(const Range& index, int64_t size) {
  return index.is_point() && index.low >= 0 && index.low < size;
}
// Of a row's elements at these indices; anything where they are not all the row's, or too many to look at.
CAUSEWAY_INLINE Range range_of_elements(const int32_t* row, const Range& index, int64_t size) {
  constexpr int kMost = 256, kTogether = 4;
  if (index.low < 0 || index.high >= size || index.high - index.low >= kMost) return kAnyInt32;
  const int32_t* const first = row + index.low;
  const int count = static_cast<int>(index.high - index.low) + 1;
  int32_t least = *first, greatest = *first;
  const auto take = [&](int32_t element) {
    least = element < least ? element : least;
    greatest = element > greatest ? element : greatest;
  };
  int done = 0;
  if (reinterpret_cast<uint64_t>(first) % (kTogether * sizeof(int32_t)) == 0) {
    for (; done + kTogether <= count; done += kTogether) {
      int32_t elements[kTogether];
      __builtin_memcpy(elements, __builtin_assume_aligned(first + done, sizeof(elements)), sizeof(elements));
      for (const int32_t element : elements) take(element);
    }
  }
  for (; done < count; ++done) take(first[done]);
  return {least, greatest};
}
