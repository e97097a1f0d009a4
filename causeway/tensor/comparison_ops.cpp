#include "causeway/tensor/comparison_ops.h"

#include <limits>

#include "causeway/graph/op.h"

namespace causeway::tensor {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Bools compare as 0 and 1.
std::vector<Tensor> match_numbers(std::string_view function, const Operand& a, const Operand& b) {
  std::vector<Tensor> operands = match_operands(function, {a, b});
  if (operands[0].dtype() == DType::kBool)
    for (Tensor& operand : operands) operand = cast(operand, DType::kI32);
  return operands;
}

Tensor bits(Op op, std::string_view function, const Operand& a, const Operand& b, bool bools) {
  const std::vector<Tensor> operands = match_operands(function, {a, b});
  const DType dtype = operands[0].dtype();
  require_argument(!is_float(dtype) && (bools || dtype != DType::kBool), function,
                   bools ? "takes integers or bools" : "takes integers", {operands[0], operands[1]});
  return tensor::apply(op, operands);
}

Tensor truth(const Tensor& x) { return x.dtype() == DType::kBool ? x : ne(x, 0); }

Tensor logical(Op op, std::string_view function, const Tensor& a, const Tensor& b) {
  return tensor::apply(op, match_operands(function, {truth(a), truth(b)}));
}

}  // namespace

Tensor eq(const Operand& a, const Operand& b) { return tensor::apply(Op::kEq, match_operands("eq", {a, b})); }
Tensor ne(const Operand& a, const Operand& b) {
  return logical_not(tensor::apply(Op::kEq, match_operands("ne", {a, b})));
}
Tensor lt(const Operand& a, const Operand& b) { return tensor::apply(Op::kLt, match_numbers("lt", a, b)); }
Tensor le(const Operand& a, const Operand& b) { return tensor::apply(Op::kLe, match_numbers("le", a, b)); }

Tensor gt(const Operand& a, const Operand& b) {
  const std::vector<Tensor> operands = match_numbers("gt", a, b);
  return apply(Op::kLt, {operands[1], operands[0]});
}

Tensor ge(const Operand& a, const Operand& b) {
  const std::vector<Tensor> operands = match_numbers("ge", a, b);
  return apply(Op::kLe, {operands[1], operands[0]});
}

Tensor isnan(const Tensor& x) { return is_float(x.dtype()) ? ne(x, x) : constant_tensor(DType::kBool, x.shape(), 0); }

Tensor isinf(const Tensor& x) {
  if (!is_float(x.dtype())) return constant_tensor(DType::kBool, x.shape(), 0);
  const Tensor wide = cast(x, DType::kF32);
  return eq(apply(Op::kAbs, {wide}), kInfinity);
}

Tensor isfinite(const Tensor& x) {
  if (!is_float(x.dtype())) return constant_tensor(DType::kBool, x.shape(), 1);
  const Tensor wide = cast(x, DType::kF32);
  return lt(apply(Op::kAbs, {wide}), kInfinity);
}

Tensor where(const Tensor& condition, const Operand& a, const Operand& b) {
  require_argument(condition.dtype() == DType::kBool, "where", "takes a bool condition", {condition},
                   "Compare it with something first, e.g. ne(x, 0).");
  const std::vector<Tensor> choices = match_operands("where", {a, b});
  const Tensor all[] = {condition, choices[0], choices[1]};
  return tensor::apply(Op::kSelect, broadcast_tensors("where", all));
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, const Operand& value) {
  require_argument(mask.dtype() == DType::kBool, "masked_fill", "takes a bool mask", {x, mask});
  const Tensor filled = where(mask, value, x);
  require_argument(filled.type() == x.type(), "masked_fill", "takes a value and a mask that fit its first argument",
                   {x, mask});
  return filled;
}

Tensor logical_and(const Tensor& a, const Tensor& b) { return logical(Op::kAnd, "logical_and", a, b); }
Tensor logical_or(const Tensor& a, const Tensor& b) { return logical(Op::kOr, "logical_or", a, b); }
Tensor logical_xor(const Tensor& a, const Tensor& b) { return logical(Op::kXor, "logical_xor", a, b); }

Tensor logical_not(const Tensor& x) {
  if (x.dtype() != DType::kBool) return eq(x, 0);
  return apply(Op::kXor, {x, constant_like(x, 1)});
}

Tensor bitwise_and(const Operand& a, const Operand& b) { return bits(Op::kAnd, "bitwise_and", a, b, true); }
Tensor bitwise_or(const Operand& a, const Operand& b) { return bits(Op::kOr, "bitwise_or", a, b, true); }
Tensor bitwise_xor(const Operand& a, const Operand& b) { return bits(Op::kXor, "bitwise_xor", a, b, true); }

Tensor bitwise_not(const Tensor& x) {
  require_argument(!is_float(x.dtype()), "bitwise_not", "takes integers or bools", {x});
  const double ones = x.dtype() == DType::kBool ? 1 : x.dtype() == DType::kU8 ? 255 : -1;
  return apply(Op::kXor, {x, constant_like(x, ones)});
}

Tensor bitwise_left_shift(const Operand& a, const Operand& b) {
  return bits(Op::kShl, "bitwise_left_shift", a, b, false);
}

Tensor bitwise_right_shift(const Operand& a, const Operand& b) {
  return bits(Op::kShr, "bitwise_right_shift", a, b, false);
}

}  // namespace causeway::tensor
