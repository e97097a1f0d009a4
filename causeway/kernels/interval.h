// Interval arithmetic, for kernels (what a mask lets through of a block: mask_ranges.h) and for the host (passes,
// checks of machine code). Nothing is rounded, and what T does not hold is the caller's to bound; a truth is 0 or 1.
#pragma once

#include "causeway/kernels/types.h"

// The numbers from low to high; both may be taken.
template <typename T>
struct Interval {
  T low, high;

  CAUSEWAY_INLINE bool is_point() const { return low == high; }
};

template <typename T>
CAUSEWAY_INLINE Interval<T> interval_neg(const Interval<T>& a) {
  return {-a.high, -a.low};
}
template <typename T>
CAUSEWAY_INLINE Interval<T> interval_add(const Interval<T>& a, const Interval<T>& b) {
  return {a.low + b.low, a.high + b.high};
}
template <typename T>
CAUSEWAY_INLINE Interval<T> interval_sub(const Interval<T>& a, const Interval<T>& b) {
  return {a.low - b.high, a.high - b.low};
}
template <typename T>
CAUSEWAY_INLINE Interval<T> interval_min(const Interval<T>& a, const Interval<T>& b) {
  return {a.low < b.low ? a.low : b.low, a.high < b.high ? a.high : b.high};
}
template <typename T>
CAUSEWAY_INLINE Interval<T> interval_max(const Interval<T>& a, const Interval<T>& b) {
  return {a.low > b.low ? a.low : b.low, a.high > b.high ? a.high : b.high};
}
// What holds both.
template <typename T>
CAUSEWAY_INLINE Interval<T> interval_hull(const Interval<T>& a, const Interval<T>& b) {
  return {a.low < b.low ? a.low : b.low, a.high > b.high ? a.high : b.high};
}
template <typename T>
CAUSEWAY_INLINE Interval<T> interval_hull(const T& a, const T& b, const T& c, const T& d) {
  return interval_hull(interval_hull(Interval<T>{a, a}, Interval<T>{b, b}),
                       interval_hull(Interval<T>{c, c}, Interval<T>{d, d}));
}
template <typename T>
CAUSEWAY_INLINE Interval<T> interval_mul(const Interval<T>& a, const Interval<T>& b) {
  return interval_hull(a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high);
}
// `negated`: interval_neg(a) as the caller bounds it.
template <typename T>
CAUSEWAY_INLINE Interval<T> interval_abs(const Interval<T>& a, const Interval<T>& negated) {
  if (a.low >= 0) return a;
  return a.high <= 0 ? negated : Interval<T>{0, interval_max(a, negated).high};
}

template <typename T>
CAUSEWAY_INLINE Interval<T> interval_lt(const Interval<T>& a, const Interval<T>& b) {
  return {a.high < b.low ? T{1} : T{0}, a.low < b.high ? T{1} : T{0}};
}
template <typename T>
CAUSEWAY_INLINE Interval<T> interval_le(const Interval<T>& a, const Interval<T>& b) {
  return {a.high <= b.low ? T{1} : T{0}, a.low <= b.high ? T{1} : T{0}};
}
template <typename T>
CAUSEWAY_INLINE Interval<T> interval_eq(const Interval<T>& a, const Interval<T>& b) {
  return {a.is_point() && b.is_point() && a.low == b.low ? T{1} : T{0}, a.high < b.low || b.high < a.low ? T{0} : T{1}};
}
// Of truths.
template <typename T>
CAUSEWAY_INLINE Interval<T> interval_and(const Interval<T>& a, const Interval<T>& b) {
  return interval_min(a, b);
}
template <typename T>
CAUSEWAY_INLINE Interval<T> interval_or(const Interval<T>& a, const Interval<T>& b) {
  return interval_max(a, b);
}
template <typename T>
CAUSEWAY_INLINE Interval<T> interval_select(const Interval<T>& condition, const Interval<T>& a, const Interval<T>& b) {
  return condition.is_point() ? (condition.low != 0 ? a : b) : interval_hull(a, b);
}
