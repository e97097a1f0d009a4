// What is known of an integer that PTX computes, and of what is computed from it.
#pragma once

#include <cstdint>
#include <string_view>

#include "causeway/kernels/interval.h"
#include "causeway/namespaces.h"

namespace causeway::codegen {

// A number between two bounds; a number whose lowest bits are known; or nothing.
struct PtxValue {
  enum class Kind : uint8_t { kUnknown, kRange, kLowBits };
  Kind kind = Kind::kUnknown;
  uint8_t bits = 0;      // known of kLowBits, which `low` has
  bool by_lane = false;  // may differ between the lanes of a warp
  // This is scale x base + offset, base being a register that is the same all along, or kThread; -1: none known.
  static constexpr int kThread = 1 << 30;
  int base = -1;
  int64_t low = 0, high = 0;
  int64_t scale = 0, offset = 0;

  bool operator==(const PtxValue&) const = default;
  bool known() const { return kind == Kind::kRange; }
  bool exact() const { return known() && low == high; }
  Interval<int64_t> interval() const { return {low, high}; }

  // One thread's number may be known and another's be another one: `by_lane`.
  static PtxValue exactly(int64_t number, bool by_lane = false) {
    return {Kind::kRange, 0, by_lane, -1, number, number, 0, 0};
  }
  static PtxValue between(int64_t low, int64_t high, bool by_lane) {
    return {Kind::kRange, 0, by_lane, -1, low, high, 0, 0};
  }
  static PtxValue between(const Interval<int64_t>& ends, bool by_lane) { return between(ends.low, ends.high, by_lane); }
  // As the signed number of so many bits, and as the unsigned one.
  PtxValue narrowed(int width) const;
  PtxValue as_unsigned(int width) const;

  // What is known of results. In full width; `sign` of the second summand.
  static PtxValue sum(const PtxValue& a, const PtxValue& b, int64_t sign);
  static PtxValue product(const PtxValue& a, const PtxValue& b);
  static PtxValue bitwise(const PtxValue& a, const PtxValue& b, char operation);  // '&', '|', '^'
  static PtxValue shifted_left(const PtxValue& a, const PtxValue& by);
  static PtxValue shifted_right(const PtxValue& a, const PtxValue& by);
  // Of setp's comparisons ("lt", "lo"): 0 or 1, -1 where it is not known.
  static int compared(const PtxValue& a, const PtxValue& b, std::string_view how);
  // What holds of both.
  static PtxValue joined(const PtxValue& a, const PtxValue& b);
};

// The lowest so many bits.
inline int64_t low_mask(int bits) { return bits >= 63 ? INT64_MAX : (int64_t{1} << bits) - 1; }

}  // namespace causeway::codegen
