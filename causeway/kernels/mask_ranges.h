// Interval arithmetic over the integers of a mask function: what all pairs of a block of queries and of keys can give.
// Elements of tensors are read, of which a block has few beside its pairs.
// Truth is 0 or 1. Results that 32 bits do not hold may be anything.
#pragma once

#include "causeway/kernels/types.h"

struct Range {
  int64_t least, greatest;  // both may be taken

  CAUSEWAY_INLINE bool is_one() const { return least == greatest; }
};

constexpr Range kAnyTruth = {0, 1};
constexpr Range kAnyInt32 = {-(int64_t{1} << 31), (int64_t{1} << 31) - 1};

CAUSEWAY_INLINE Range range_in_int32(const Range& a) {
  return a.least < kAnyInt32.least || a.greatest > kAnyInt32.greatest ? kAnyInt32 : a;
}
CAUSEWAY_INLINE Range range_neg(const Range& a) { return range_in_int32({-a.greatest, -a.least}); }
CAUSEWAY_INLINE Range range_add(const Range& a, const Range& b) {
  return range_in_int32({a.least + b.least, a.greatest + b.greatest});
}
CAUSEWAY_INLINE Range range_sub(const Range& a, const Range& b) {
  return range_in_int32({a.least - b.greatest, a.greatest - b.least});
}
CAUSEWAY_INLINE Range range_min(const Range& a, const Range& b) {
  return {a.least < b.least ? a.least : b.least, a.greatest < b.greatest ? a.greatest : b.greatest};
}
CAUSEWAY_INLINE Range range_max(const Range& a, const Range& b) {
  return {a.least > b.least ? a.least : b.least, a.greatest > b.greatest ? a.greatest : b.greatest};
}
CAUSEWAY_INLINE Range range_of_either(const Range& a, const Range& b) {
  return {a.least < b.least ? a.least : b.least, a.greatest > b.greatest ? a.greatest : b.greatest};
}
CAUSEWAY_INLINE Range range_mul(const Range& a, const Range& b) {
  const int64_t ll = a.least * b.least, lg = a.least * b.greatest, gl = a.greatest * b.least,
                gg = a.greatest * b.greatest;
  return range_in_int32(range_of_either(range_of_either({ll, ll}, {lg, lg}), range_of_either({gl, gl}, {gg, gg})));
}
CAUSEWAY_INLINE Range range_abs(const Range& a) {
  const Range negated = range_neg(a);
  if (a.least >= 0) return a;
  return a.greatest <= 0 ? negated : Range{0, range_max(a, negated).greatest};
}

CAUSEWAY_INLINE Range range_lt(const Range& a, const Range& b) {
  return {a.greatest < b.least ? 1 : 0, a.least < b.greatest ? 1 : 0};
}
CAUSEWAY_INLINE Range range_le(const Range& a, const Range& b) {
  return {a.greatest <= b.least ? 1 : 0, a.least <= b.greatest ? 1 : 0};
}
CAUSEWAY_INLINE Range range_eq(const Range& a, const Range& b) {
  return {a.is_one() && b.is_one() && a.least == b.least ? 1 : 0, a.greatest < b.least || b.greatest < a.least ? 0 : 1};
}
// Of truths.
CAUSEWAY_INLINE Range range_and(const Range& a, const Range& b) { return range_min(a, b); }
CAUSEWAY_INLINE Range range_or(const Range& a, const Range& b) { return range_max(a, b); }
CAUSEWAY_INLINE Range range_xor(const Range& a, const Range& b) {
  if (!a.is_one() || !b.is_one()) return kAnyTruth;
  return {a.least ^ b.least, a.least ^ b.least};
}
CAUSEWAY_INLINE Range range_select(const Range& condition, const Range& a, const Range& b) {
  return condition.is_one() ? (condition.least != 0 ? a : b) : range_of_either(a, b);
}

// Whether it is one index of an axis.
CAUSEWAY_INLINE bool is_one_index(const Range& index, int64_t size) {
  return index.is_one() && index.least >= 0 && index.least < size;
}
// Of a row's elements at these indices; anything where they are not all the row's, or too many to look at.
CAUSEWAY_INLINE Range range_of_elements(const int32_t* row, const Range& index, int64_t size) {
  constexpr int kMost = 256, kTogether = 4;
  if (index.least < 0 || index.greatest >= size || index.greatest - index.least >= kMost) return kAnyInt32;
  const int32_t* const first = row + index.least;
  const int count = static_cast<int>(index.greatest - index.least) + 1;
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
