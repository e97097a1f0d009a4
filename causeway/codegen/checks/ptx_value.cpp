#include "causeway/codegen/checks/ptx_value.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace causeway::codegen {
namespace {

constexpr int64_t kFar = int64_t{1} << 40;  // no address in shared memory, and no sum of such, is further

// Known bits from the lowest on; 64 of an exact number.
int known_bits(const PtxValue& value) {
  return value.exact() ? 64 : value.kind == PtxValue::Kind::kLowBits ? value.bits : 0;
}
PtxValue of_low_bits(int64_t number, int bits, bool by_lane) {
  if (bits <= 0) return {};
  PtxValue value;
  value.kind = PtxValue::Kind::kLowBits;
  value.bits = static_cast<uint8_t>(std::min(bits, 16));
  value.low = value.high = number & low_mask(value.bits);
  value.by_lane = by_lane;
  return value;
}

bool fits(const PtxValue& a) { return a.low > -kFar && a.high < kFar; }

}  // namespace

PtxValue PtxValue::narrowed(int width) const {
  PtxValue value = *this;
  if (!value.known() || width >= 64) return value;
  const int64_t half = int64_t{1} << (width - 1);
  if (value.low >= -half && value.high < half) return value;
  if (value.exact()) {
    const uint64_t mask = (uint64_t{1} << width) - 1;
    const auto bits = static_cast<int64_t>(static_cast<uint64_t>(value.low) & mask);
    value.low = value.high = bits >= half ? bits - 2 * half : bits;
    return value;
  }
  return {};
}

PtxValue PtxValue::as_unsigned(int width) const {
  PtxValue value = *this;
  if (!value.known() || value.low >= 0 || width >= 64) return value;
  if (!value.exact() && value.high >= 0) return {};
  value.low += int64_t{1} << width;
  value.high += int64_t{1} << width;
  value.base = -1;
  return value;
}

PtxValue PtxValue::sum(const PtxValue& a, const PtxValue& b, int64_t sign) {
  const bool by_lane = a.by_lane || b.by_lane;
  if (a.exact() && b.exact())
    return exactly(
        static_cast<int64_t>(static_cast<uint64_t>(a.low) + static_cast<uint64_t>(sign) * static_cast<uint64_t>(b.low)),
        by_lane);
  if (a.known() && b.known() && fits(a) && fits(b)) {
    PtxValue result = between(
        sign > 0 ? interval_add(a.interval(), b.interval()) : interval_sub(a.interval(), b.interval()), by_lane);
    // An exact number has no base, and counts as any.
    const int base = a.exact() ? b.base : b.exact() || a.base == b.base ? a.base : -1;
    if (base >= 0) {
      result.base = base;
      result.scale = (a.exact() ? 0 : a.scale) + sign * (b.exact() ? 0 : b.scale);
      result.offset = (a.exact() ? a.low : a.offset) + sign * (b.exact() ? b.low : b.offset);
    }
    return result;
  }
  return of_low_bits(a.low + sign * b.low, std::min(known_bits(a), known_bits(b)), by_lane);
}

PtxValue PtxValue::product(const PtxValue& a, const PtxValue& b) {
  const bool by_lane = a.by_lane || b.by_lane;
  if (a.exact() && b.exact())
    return exactly(static_cast<int64_t>(static_cast<uint64_t>(a.low) * static_cast<uint64_t>(b.low)), by_lane);
  if (a.known() && b.known() && fits(a) && fits(b)) {
    __extension__ typedef __int128 Wide;
    const auto [low, high] = interval_mul(Interval<Wide>{a.low, a.high}, Interval<Wide>{b.low, b.high});
    if (low <= -kFar || high >= kFar) return {};
    PtxValue result = between(static_cast<int64_t>(low), static_cast<int64_t>(high), by_lane);
    for (const auto& [factor, other] : {std::pair(&a, &b), std::pair(&b, &a)})
      if (factor->exact() && other->base >= 0)
        result.base = other->base, result.scale = other->scale * factor->low,
        result.offset = other->offset * factor->low;
    return result;
  }
  return of_low_bits(static_cast<int64_t>(static_cast<uint64_t>(a.low) * static_cast<uint64_t>(b.low)),
                     std::min(known_bits(a), known_bits(b)), by_lane);
}

PtxValue PtxValue::bitwise(const PtxValue& a, const PtxValue& b, char operation) {
  const bool by_lane = a.by_lane || b.by_lane;
  const auto apply = [&](int64_t x, int64_t y) { return operation == '&' ? x & y : operation == '|' ? x | y : x ^ y; };
  // Lanes differ in the lowest five bits of a thread's number.
  const auto varies_under = [](const PtxValue& mask, const PtxValue& other) {
    return mask.by_lane || (other.by_lane && mask.low % 32 != 0);
  };
  if (a.exact() && b.exact())
    return exactly(apply(a.low, b.low), operation == '&' ? varies_under(a, b) && varies_under(b, a) : by_lane);
  if (operation == '&') {
    for (const auto& [mask, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
      if (!mask->exact() || mask->low < 0) continue;
      const bool varies = varies_under(*mask, *other);
      const int bits = known_bits(*other);
      if (mask->low <= low_mask(bits)) return exactly(mask->low & other->low, varies);
      if (other->known() && other->low >= 0) {
        if (other->high <= mask->low && std::has_single_bit(static_cast<uint64_t>(mask->low) + 1)) return *other;
        return between(0, std::min(mask->low, other->high), varies);
      }
      return between(0, mask->low, varies);
    }
    // Alignment downwards.
    for (const auto& [mask, other] : {std::pair(&a, &b), std::pair(&b, &a)})
      if (mask->exact() && other->known() && other->low >= 0 && std::has_single_bit(static_cast<uint64_t>(-mask->low)))
        return between(other->low & mask->low, other->high & mask->low, varies_under(*mask, *other));
  }
  // No bit in common: as added.
  for (const auto& [bits, other] : {std::pair(&a, &b), std::pair(&b, &a)})
    if (operation != '&' && bits->exact() && bits->low != 0 && other->known() && other->low >= 0 && fits(*other) &&
        other->high < (bits->low & -bits->low))
      return sum(*other, *bits, 1);
  if (operation != '&' && a.known() && b.known() && a.low >= 0 && b.low >= 0 && fits(a) && fits(b)) {
    // No more than the sum; and no bit above those that either may have.
    const int64_t all = low_mask(std::bit_width(static_cast<uint64_t>(a.high | b.high)));
    return between(operation == '|' ? std::max(a.low, b.low) : 0, std::min(a.high + b.high, all), by_lane);
  }
  return of_low_bits(apply(a.low, b.low), std::min(known_bits(a), known_bits(b)), by_lane);
}

PtxValue PtxValue::shifted_left(const PtxValue& a, const PtxValue& by) {
  if (!by.exact() || by.low < 0 || by.low > 40) return {};
  if (a.known()) return product(a, exactly(int64_t{1} << by.low));
  return of_low_bits(a.low << by.low, known_bits(a) + static_cast<int>(by.low), a.by_lane);
}

PtxValue PtxValue::shifted_right(const PtxValue& a, const PtxValue& by) {
  if (!by.exact() || by.low < 0 || by.low > 63) return {};
  if (a.known()) return between(a.low >> by.low, a.high >> by.low, a.by_lane && (by.low < 5 || a.low < 0));
  return of_low_bits(a.low >> by.low, known_bits(a) - static_cast<int>(by.low), a.by_lane);
}

int PtxValue::compared(const PtxValue& a, const PtxValue& b, std::string_view how) {
  if (!a.known() || !b.known()) {
    // Numbers whose lowest bits differ are not equal.
    const int bits = std::min(known_bits(a), known_bits(b));
    if ((how == "eq" || how == "ne") && bits > 0 && ((a.low ^ b.low) & low_mask(bits)) != 0) return how == "ne";
    return -1;
  }
  const auto decide = [](const Interval<int64_t>& truth) {
    return truth.is_point() ? static_cast<int>(truth.low) : -1;
  };
  const Interval<int64_t> x = a.interval(), y = b.interval();
  if (how == "eq") return decide(interval_eq(x, y));
  if (how == "ne") return decide(interval_sub<int64_t>({1, 1}, interval_eq(x, y)));
  if (how == "lt" || how == "lo") return decide(interval_lt(x, y));
  if (how == "le" || how == "ls") return decide(interval_le(x, y));
  if (how == "gt" || how == "hi") return decide(interval_lt(y, x));
  if (how == "ge" || how == "hs") return decide(interval_le(y, x));
  return -1;
}

PtxValue PtxValue::joined(const PtxValue& a, const PtxValue& b) {
  if (a == b) return a;
  if (a.known() && b.known()) return between(interval_hull(a.interval(), b.interval()), a.by_lane || b.by_lane);
  return {};
}

}  // namespace causeway::codegen
