#include "causeway/passes/constant_folding.h"

#include <cmath>

#include "causeway/graph/op.h"

namespace causeway::passes {
namespace {

constexpr double kLargestExact = 9007199254740991.0;  // no rounding gives this, or less, where the exact result is more

struct Range {
  double low, high;
};

Range integer_range(DType dtype) {
  switch (dtype) {
    case DType::kI16:
      return {-32768, 32767};
    case DType::kU8:
      return {0, 255};
    case DType::kI32:
      return {-2147483648.0, 2147483647.0};
    default:
      return {-kLargestExact, kLargestExact};
  }
}

// Operands that a double holds exactly, so that no quotient overflows.
std::optional<double> fold_integer(Op op, double a, double b, DType dtype) {
  const auto x = static_cast<int64_t>(a), y = static_cast<int64_t>(b);
  const auto count = static_cast<int64_t>(static_cast<uint64_t>(y) % (8 * size_bytes(dtype)));
  const int64_t quotient = y == 0 ? 0 : x / y;
  switch (op) {
    case Op::kDiv:
      return static_cast<double>(quotient);
    case Op::kRem:
      return y == 0 ? 0 : static_cast<double>(x % y);
    case Op::kAnd:
      return static_cast<double>(x & y);
    case Op::kOr:
      return static_cast<double>(x | y);
    case Op::kXor:
      return static_cast<double>(x ^ y);
    case Op::kShl:
      return std::ldexp(a, static_cast<int>(count));
    case Op::kShr:
      return static_cast<double>(x >> count);
    default:
      return std::nullopt;
  }
}

std::optional<double> fold_float(Op op, double a, double b) {
  switch (op) {
    case Op::kExp2:
      return std::exp2(a);
    case Op::kLog2:
      return std::log2(a);
    case Op::kSin:
      return std::sin(a);
    case Op::kCos:
      return std::cos(a);
    case Op::kSqrt:
      return std::sqrt(a);
    case Op::kRsqrt:
      return 1 / std::sqrt(a);
    case Op::kRecip:
      return 1 / a;
    case Op::kTanh:
      return std::tanh(a);
    case Op::kErf:
      return std::erf(a);
    case Op::kFloor:
      return std::floor(a);
    case Op::kDiv:
      return a / b;
    case Op::kRem:
      return std::fmod(a, b);
    case Op::kPow:
      return std::pow(a, b);
    default:
      return std::nullopt;
  }
}

// Modulo 2^64, of operands that a double holds, for the ops whose result may be beyond their type.
std::optional<uint64_t> wrap_integer(Op op, uint64_t a, uint64_t b, uint64_t c, DType dtype) {
  switch (op) {
    case Op::kNeg:
      return 0 - a;
    case Op::kAbs:
      return static_cast<int64_t>(a) < 0 ? 0 - a : a;
    case Op::kAdd:
      return a + b;
    case Op::kSub:
      return a - b;
    case Op::kMul:
      return a * b;
    case Op::kFma:
      return a * b + c;
    case Op::kDiv:
      return b == 0 ? 0 : static_cast<uint64_t>(static_cast<int64_t>(a) / static_cast<int64_t>(b));
    case Op::kShl:
      return a << (b % (8 * size_bytes(dtype)));
    default:
      return std::nullopt;
  }
}

double narrowed(DType dtype, uint64_t value) {
  if (dtype == DType::kI16) return static_cast<int16_t>(value);
  if (dtype == DType::kU8) return static_cast<uint8_t>(value);
  if (dtype == DType::kI32) return static_cast<int32_t>(value);
  return static_cast<double>(static_cast<int64_t>(value));
}

// Ops that mean the same for integers and floats.
std::optional<double> fold_number(Op op, double a, double b) {
  const bool nan = std::isnan(a) || std::isnan(b);
  switch (op) {
    case Op::kNeg:
      return -a;
    case Op::kAbs:
      return std::fabs(a);
    case Op::kAdd:
      return a + b;
    case Op::kSub:
      return a - b;
    case Op::kMul:
      return a * b;
    case Op::kMax:
      return nan ? NAN : std::fmax(a, b);
    case Op::kMin:
      return nan ? NAN : std::fmin(a, b);
    case Op::kLt:
      return a < b ? 1 : 0;
    case Op::kLe:
      return a <= b ? 1 : 0;
    case Op::kEq:
      return a == b ? 1 : 0;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<double> fold_elementwise(Op op, ElementwiseInputs inputs, DType operand, DType result) {
  for (double& input : inputs) {
    if (is_float(operand)) input = round_to_dtype(operand, input);
    if (is_integer(operand) && std::abs(input) > kLargestExact) return std::nullopt;
  }
  const double a = inputs[0], b = inputs[1];
  std::optional<double> value;
  if (op == Op::kSelect) {
    value = a != 0 ? inputs[1] : inputs[2];
  } else if (op == Op::kFma) {
    value = std::fma(a, b, inputs[2]);
  } else if (op == Op::kCast) {
    if (is_integer(result) && !is_integer(operand) && !std::isfinite(a)) return std::nullopt;
    value = is_integer(result) ? std::trunc(a) : a;
  } else if (op == Op::kBitcast) {
    return std::nullopt;
  } else {
    value = fold_number(op, a, b);
    if (!value.has_value()) value = is_float(operand) ? fold_float(op, a, b) : fold_integer(op, a, b, operand);
  }
  if (!value.has_value()) return std::nullopt;
  if (is_integer(result)) {
    const Range range = integer_range(result);
    if (!(*value >= range.low && *value <= range.high)) return std::nullopt;
    return *value + 0.0;  // no negative zero
  }
  return round_to_dtype(result, *value);
}

std::optional<double> evaluate_elementwise(Op op, const ElementwiseInputs& inputs, DType operand, DType result) {
  if (op == Op::kCast && is_integer(result) && std::abs(inputs[0]) <= kLargestExact)
    return round_to_dtype(result, inputs[0]) + 0.0;
  if (is_integer(operand) && operand == result) {
    for (const double input : inputs)
      if (std::abs(input) > kLargestExact) return std::nullopt;
    const auto integer = [](double value) { return static_cast<uint64_t>(static_cast<int64_t>(value)); };
    const std::optional<uint64_t> wrapped =
        wrap_integer(op, integer(inputs[0]), integer(inputs[1]), integer(inputs[2]), operand);
    if (wrapped) {
      const double value = narrowed(result, *wrapped);
      return std::abs(value) <= kLargestExact ? std::optional(value) : std::nullopt;
    }
  }
  return fold_elementwise(op, inputs, operand, result);
}

}  // namespace causeway::passes
