#include <cmath>

#include "causeway/base/error.h"
#include "causeway/graph/interpreter_node.h"
#include "causeway/graph/op.h"

namespace causeway::graph {
namespace {

template <class Function>
void map_one(const NodeEvaluation& evaluation, Function function) {
  HostTensor& out = evaluation.output();
  const double* x = evaluation.input(0).values.data();
  for (size_t i = 0; i < out.values.size(); ++i) out.values[i] = function(x[i]);
}

template <class Function>
void map_two(const NodeEvaluation& evaluation, Function function) {
  HostTensor& out = evaluation.output();
  const double* x = evaluation.input(0).values.data();
  const double* y = evaluation.input(1).values.data();
  for (size_t i = 0; i < out.values.size(); ++i) out.values[i] = function(x[i], y[i]);
}

template <class Function>
void map_three(const NodeEvaluation& evaluation, Function function) {
  HostTensor& out = evaluation.output();
  const double* x = evaluation.input(0).values.data();
  const double* y = evaluation.input(1).values.data();
  const double* z = evaluation.input(2).values.data();
  for (size_t i = 0; i < out.values.size(); ++i) out.values[i] = function(x[i], y[i], z[i]);
}

// Computes modulo 2^64 on the operands' integers, then wraps to the dtype.
template <class Function>
void map_integers(const NodeEvaluation& evaluation, Function function) {
  const DType dtype = evaluation.output().dtype;
  map_two(evaluation, [&](double x, double y) {
    return wrap_integer(
        dtype, static_cast<int64_t>(function(static_cast<uint64_t>(to_int64(x)), static_cast<uint64_t>(to_int64(y)))));
  });
}

void evaluate_unary(const NodeEvaluation& evaluation) {
  const DType dtype = evaluation.output().dtype;
  const bool floats = is_float(dtype);
  switch (evaluation.node.op) {
    case Op::kNeg:
      return map_one(evaluation, [&](double x) {
        return floats ? -x : wrap_integer(dtype, static_cast<int64_t>(0 - static_cast<uint64_t>(to_int64(x))));
      });
    case Op::kAbs:
      return map_one(evaluation, [&](double x) {
        if (floats || x >= 0) return std::abs(x);
        return wrap_integer(dtype, static_cast<int64_t>(0 - static_cast<uint64_t>(to_int64(x))));
      });
    case Op::kExp2:
      return map_one(evaluation, [](double x) { return std::exp2(x); });
    case Op::kLog2:
      return map_one(evaluation, [](double x) { return std::log2(x); });
    case Op::kSin:
      return map_one(evaluation, [](double x) { return std::sin(x); });
    case Op::kCos:
      return map_one(evaluation, [](double x) { return std::cos(x); });
    case Op::kSqrt:
      return map_one(evaluation, [](double x) { return std::sqrt(x); });
    case Op::kRsqrt:
      return map_one(evaluation, [](double x) { return 1 / std::sqrt(x); });
    case Op::kRecip:
      return map_one(evaluation, [](double x) { return 1 / x; });
    case Op::kTanh:
      return map_one(evaluation, [](double x) { return std::tanh(x); });
    case Op::kErf:
      return map_one(evaluation, [](double x) { return std::erf(x); });
    case Op::kFloor:
      return map_one(evaluation, [](double x) { return std::floor(x); });
    default:
      CAUSEWAY_CHECK(false, "unary {}", op_name(evaluation.node.op));
  }
}

void evaluate_convert(const NodeEvaluation& evaluation) {
  const DType from = evaluation.input(0).dtype, to = evaluation.output().dtype;
  if (evaluation.node.op == Op::kBitcast)
    return map_one(evaluation, [&](double x) {
      std::byte storage[8];
      write_element(from, storage, 0, x);
      return read_element(to, storage, 0);
    });
  if (is_float(to)) return map_one(evaluation, [](double x) { return x; });
  map_one(evaluation, [&](double x) { return round_to_dtype(to, x); });
}

uint64_t divide_integers(uint64_t x, uint64_t y) {
  if (y == 0) return 0;
  // The one quotient that overflows, the smallest integer by -1, is the negation modulo 2^64.
  if (static_cast<int64_t>(y) == -1) return 0 - x;
  return static_cast<uint64_t>(static_cast<int64_t>(x) / static_cast<int64_t>(y));
}

void evaluate_integer_binary(const NodeEvaluation& evaluation) {
  const uint64_t shift_mask = size_bytes(evaluation.output().dtype) * 8 - 1;
  switch (evaluation.node.op) {
    case Op::kAdd:
      return map_integers(evaluation, [](uint64_t x, uint64_t y) { return x + y; });
    case Op::kSub:
      return map_integers(evaluation, [](uint64_t x, uint64_t y) { return x - y; });
    case Op::kMul:
      return map_integers(evaluation, [](uint64_t x, uint64_t y) { return x * y; });
    case Op::kDiv:
      return map_integers(evaluation, divide_integers);
    case Op::kRem:
      return map_integers(evaluation,
                          [](uint64_t x, uint64_t y) { return y == 0 ? 0 : x - divide_integers(x, y) * y; });
    case Op::kAnd:
      return map_integers(evaluation, [](uint64_t x, uint64_t y) { return x & y; });
    case Op::kOr:
      return map_integers(evaluation, [](uint64_t x, uint64_t y) { return x | y; });
    case Op::kXor:
      return map_integers(evaluation, [](uint64_t x, uint64_t y) { return x ^ y; });
    case Op::kShl:
      return map_integers(evaluation, [&](uint64_t x, uint64_t y) { return x << (y & shift_mask); });
    case Op::kShr:
      return map_integers(evaluation, [&](uint64_t x, uint64_t y) {
        return static_cast<uint64_t>(static_cast<int64_t>(x) >> (y & shift_mask));
      });
    default:
      CAUSEWAY_CHECK(false, "integer {}", op_name(evaluation.node.op));
  }
}

void evaluate_float_binary(const NodeEvaluation& evaluation) {
  switch (evaluation.node.op) {
    case Op::kAdd:
      return map_two(evaluation, [](double x, double y) { return x + y; });
    case Op::kSub:
      return map_two(evaluation, [](double x, double y) { return x - y; });
    case Op::kMul:
      return map_two(evaluation, [](double x, double y) { return x * y; });
    case Op::kDiv:
      return map_two(evaluation, [](double x, double y) { return x / y; });
    case Op::kRem:
      return map_two(evaluation, [](double x, double y) { return std::fmod(x, y); });
    case Op::kPow:
      return map_two(evaluation, [](double x, double y) { return std::pow(x, y); });
    default:
      CAUSEWAY_CHECK(false, "float {}", op_name(evaluation.node.op));
  }
}

void evaluate_binary(const NodeEvaluation& evaluation) {
  if (evaluation.node.op == Op::kMax) return map_two(evaluation, max_or_nan);
  if (evaluation.node.op == Op::kMin)
    return map_two(evaluation, [](double x, double y) { return -max_or_nan(-x, -y); });
  if (is_float(evaluation.output().dtype)) return evaluate_float_binary(evaluation);
  evaluate_integer_binary(evaluation);
}

void evaluate_compare(const NodeEvaluation& evaluation) {
  switch (evaluation.node.op) {
    case Op::kLt:
      return map_two(evaluation, [](double x, double y) { return x < y ? 1.0 : 0.0; });
    case Op::kLe:
      return map_two(evaluation, [](double x, double y) { return x <= y ? 1.0 : 0.0; });
    default:
      return map_two(evaluation, [](double x, double y) { return x == y ? 1.0 : 0.0; });
  }
}

void evaluate_fma(const NodeEvaluation& evaluation) {
  const DType dtype = evaluation.output().dtype;
  if (is_float(dtype)) return map_three(evaluation, [](double x, double y, double z) { return x * y + z; });
  map_three(evaluation, [&](double x, double y, double z) {
    const auto bits = [](double value) { return static_cast<uint64_t>(to_int64(value)); };
    return wrap_integer(dtype, static_cast<int64_t>(bits(x) * bits(y) + bits(z)));
  });
}

}  // namespace

void evaluate_elementwise(const NodeEvaluation& evaluation) {
  switch (op_info(evaluation.node.op).kind) {
    case OpKind::kUnary:
      return evaluate_unary(evaluation);
    case OpKind::kConvert:
      return evaluate_convert(evaluation);
    case OpKind::kBinary:
      return evaluate_binary(evaluation);
    case OpKind::kCompare:
      return evaluate_compare(evaluation);
    case OpKind::kSelect:
      return map_three(evaluation, [](double c, double x, double y) { return c != 0 ? x : y; });
    default:
      return evaluate_fma(evaluation);
  }
}

}  // namespace causeway::graph
