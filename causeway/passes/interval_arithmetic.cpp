#include "causeway/passes/interval_arithmetic.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "causeway/graph/op.h"

namespace causeway::passes {
namespace {

constexpr Interval kUnknownBool = {0, 1};
// Doubles hold all integers up to here.
constexpr double kExactInteger = 9007199254740992.0;

Interval truth(bool certain, bool possible) { return {certain ? 1.0 : 0.0, possible ? 1.0 : 0.0}; }

Interval hull(std::initializer_list<double> values) {
  const auto [low, high] = std::minmax(values);
  return {low, high};
}

// `interval` if every value in it can be told from NaN and from what wraps around.
Interval representable(DType dtype, const Interval& interval) {
  if (!interval.is_finite()) return all_values(dtype);
  if (is_float(dtype)) return interval;
  const Interval all = all_values(dtype);
  const bool exact = std::max(std::abs(interval.low), std::abs(interval.high)) <= kExactInteger;
  return exact && interval.low >= all.low && interval.high <= all.high ? interval : all;
}

Interval bound_compare(Op op, const Interval& a, const Interval& b) {
  if (!a.is_finite() || !b.is_finite()) return kUnknownBool;
  switch (op) {
    case Op::kLt:
      return truth(a.high < b.low, a.low < b.high);
    case Op::kLe:
      return truth(a.high <= b.low, a.low <= b.high);
    default:
      return truth(a.is_point() && b.is_point() && a.low == b.low, a.low <= b.high && b.low <= a.high);
  }
}

Interval bound_quotient(DType dtype, const Interval& a, const Interval& b) {
  if (b.low <= 0 && b.high >= 0) return all_values(dtype);
  const auto divide = [&](double x, double y) { return is_float(dtype) ? x / y : std::trunc(x / y); };
  return hull({divide(a.low, b.low), divide(a.low, b.high), divide(a.high, b.low), divide(a.high, b.high)});
}

// Of integers, by a positive constant: the remainder has the sign of what is divided.
Interval bound_remainder(DType dtype, const Interval& a, const Interval& b) {
  if (is_float(dtype) || !b.is_point() || b.low <= 0) return all_values(dtype);
  const double divisor = b.low;
  const bool one_period = std::trunc(a.low / divisor) == std::trunc(a.high / divisor) && (a.low >= 0 || a.high <= 0);
  if (one_period) return {std::fmod(a.low, divisor), std::fmod(a.high, divisor)};
  return {a.low < 0 ? 1 - divisor : 0, a.high > 0 ? divisor - 1 : 0};
}

Interval bound_logic(Op op, const Interval& a, const Interval& b) {
  if (op == Op::kAnd) return {std::min(a.low, b.low), std::min(a.high, b.high)};
  if (op == Op::kOr) return {std::max(a.low, b.low), std::max(a.high, b.high)};
  if (!a.is_point() || !b.is_point()) return kUnknownBool;
  return truth(a.low != b.low, a.low != b.low);
}

Interval bound_binary(Op op, DType dtype, const Interval& a, const Interval& b) {
  switch (op) {
    case Op::kAdd:
      return {a.low + b.low, a.high + b.high};
    case Op::kSub:
      return {a.low - b.high, a.high - b.low};
    case Op::kMul:
      return hull({a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high});
    case Op::kDiv:
      return bound_quotient(dtype, a, b);
    case Op::kRem:
      return bound_remainder(dtype, a, b);
    case Op::kMax:
      return {std::max(a.low, b.low), std::max(a.high, b.high)};
    case Op::kMin:
      return {std::min(a.low, b.low), std::min(a.high, b.high)};
    default:
      return all_values(dtype);
  }
}

Interval bound_unary(Op op, DType dtype, const Interval& x) {
  switch (op) {
    case Op::kNeg:
      return {-x.high, -x.low};
    case Op::kAbs:
      return {x.low > 0 ? x.low : x.high < 0 ? -x.high : 0, std::max(std::abs(x.low), std::abs(x.high))};
    case Op::kFloor:
      return {std::floor(x.low), std::floor(x.high)};
    default:
      return all_values(dtype);
  }
}

Interval bound_cast(DType from, DType to, const Interval& x) {
  if (to == DType::kBool) return x.low > 0 || x.high < 0 ? truth(true, true) : truth(false, x.low != 0 || x.high != 0);
  // The interpreter keeps a float's value in any float type.
  return is_float(to) ? x : Interval{round_to_dtype(to, x.low), round_to_dtype(to, x.high)};
}

}  // namespace

bool Interval::is_finite() const { return std::isfinite(low) && std::isfinite(high); }

Interval all_values(DType dtype) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (dtype) {
    case DType::kBool:
      return kUnknownBool;
    case DType::kI16:
      return {-32768, 32767};
    case DType::kU8:
      return {0, 255};
    case DType::kI32:
      return {-2147483648.0, 2147483647.0};
    case DType::kI64:
      return {-9223372036854775808.0, 9223372036854775808.0};
    default:
      return {-kInfinity, kInfinity};
  }
}

Interval bound_elementwise(const Node& node, std::span<const Interval> inputs, std::span<const DType> input_types) {
  const DType dtype = node.outputs[0].dtype;
  const OpKind kind = op_info(node.op).kind;
  if (kind == OpKind::kCompare) return bound_compare(node.op, inputs[0], inputs[1]);
  if (kind == OpKind::kSelect) {
    if (inputs[0].is_point()) return inputs[0].low != 0 ? inputs[1] : inputs[2];
    return {std::min(inputs[1].low, inputs[2].low), std::max(inputs[1].high, inputs[2].high)};
  }
  for (const Interval& input : inputs)
    if (!input.is_finite()) return all_values(dtype);
  switch (kind) {
    case OpKind::kUnary:
      return representable(dtype, bound_unary(node.op, dtype, inputs[0]));
    case OpKind::kConvert:
      return node.op == Op::kCast ? representable(dtype, bound_cast(input_types[0], dtype, inputs[0]))
                                  : all_values(dtype);
    case OpKind::kBinary:
      if (dtype == DType::kBool) return bound_logic(node.op, inputs[0], inputs[1]);
      return representable(dtype, bound_binary(node.op, dtype, inputs[0], inputs[1]));
    default:
      return all_values(dtype);
  }
}

}  // namespace causeway::passes
