#include "causeway/passes/interval_arithmetic.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "causeway/graph/op.h"

namespace causeway::passes {
namespace {

constexpr Bounds kUnknownBool = {0, 1};
// Doubles hold all integers up to here.
constexpr double kExactInteger = 9007199254740992.0;

Bounds truth(bool certain, bool possible) { return {certain ? 1.0 : 0.0, possible ? 1.0 : 0.0}; }

// `interval` if every value in it can be told from NaN and from what wraps around.
Bounds representable(DType dtype, const Bounds& interval) {
  if (!is_finite(interval)) return all_values(dtype);
  if (is_float(dtype)) return interval;
  const Bounds all = all_values(dtype);
  const bool exact = std::max(std::abs(interval.low), std::abs(interval.high)) <= kExactInteger;
  return exact && interval.low >= all.low && interval.high <= all.high ? interval : all;
}

Bounds bound_compare(Op op, const Bounds& a, const Bounds& b) {
  if (!is_finite(a) || !is_finite(b)) return kUnknownBool;
  switch (op) {
    case Op::kLt:
      return interval_lt(a, b);
    case Op::kLe:
      return interval_le(a, b);
    default:
      return interval_eq(a, b);
  }
}

Bounds bound_quotient(DType dtype, const Bounds& a, const Bounds& b) {
  if (b.low <= 0 && b.high >= 0) return all_values(dtype);
  const auto divide = [&](double x, double y) { return is_float(dtype) ? x / y : std::trunc(x / y); };
  return interval_hull(divide(a.low, b.low), divide(a.low, b.high), divide(a.high, b.low), divide(a.high, b.high));
}

// Of integers, by a positive constant: the remainder has the sign of what is divided.
Bounds bound_remainder(DType dtype, const Bounds& a, const Bounds& b) {
  if (is_float(dtype) || !b.is_point() || b.low <= 0) return all_values(dtype);
  const double divisor = b.low;
  const bool one_period = std::trunc(a.low / divisor) == std::trunc(a.high / divisor) && (a.low >= 0 || a.high <= 0);
  if (one_period) return {std::fmod(a.low, divisor), std::fmod(a.high, divisor)};
  return {a.low < 0 ? 1 - divisor : 0, a.high > 0 ? divisor - 1 : 0};
}

Bounds bound_logic(Op op, const Bounds& a, const Bounds& b) {
  if (op == Op::kAnd) return interval_and(a, b);
  if (op == Op::kOr) return interval_or(a, b);
  if (!a.is_point() || !b.is_point()) return kUnknownBool;
  return truth(a.low != b.low, a.low != b.low);
}

Bounds bound_binary(Op op, DType dtype, const Bounds& a, const Bounds& b) {
  switch (op) {
    case Op::kAdd:
      return interval_add(a, b);
    case Op::kSub:
      return interval_sub(a, b);
    case Op::kMul:
      return interval_mul(a, b);
    case Op::kDiv:
      return bound_quotient(dtype, a, b);
    case Op::kRem:
      return bound_remainder(dtype, a, b);
    case Op::kMax:
      return interval_max(a, b);
    case Op::kMin:
      return interval_min(a, b);
    default:
      return all_values(dtype);
  }
}

Bounds bound_unary(Op op, DType dtype, const Bounds& x) {
  switch (op) {
    case Op::kNeg:
      return interval_neg(x);
    case Op::kAbs:
      return interval_abs(x, interval_neg(x));
    case Op::kFloor:
      return {std::floor(x.low), std::floor(x.high)};
    default:
      return all_values(dtype);
  }
}

Bounds bound_cast(DType from, DType to, const Bounds& x) {
  if (to == DType::kBool) return x.low > 0 || x.high < 0 ? truth(true, true) : truth(false, x.low != 0 || x.high != 0);
  // The interpreter keeps a float's value in any float type.
  return is_float(to) ? x : Bounds{round_to_dtype(to, x.low), round_to_dtype(to, x.high)};
}

}  // namespace

bool is_finite(const Bounds& bounds) { return std::isfinite(bounds.low) && std::isfinite(bounds.high); }

Bounds all_values(DType dtype) {
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

Bounds bound_elementwise(const Node& node, std::span<const Bounds> inputs, std::span<const DType> input_types) {
  const DType dtype = node.outputs[0].dtype;
  const OpKind kind = op_info(node.op).kind;
  if (kind == OpKind::kCompare) return bound_compare(node.op, inputs[0], inputs[1]);
  if (kind == OpKind::kSelect) return interval_select(inputs[0], inputs[1], inputs[2]);
  for (const Bounds& input : inputs)
    if (!is_finite(input)) return all_values(dtype);
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
