// Interval arithmetic over the integers of a mask function: what all pairs of a block of queries and of keys can give.
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
