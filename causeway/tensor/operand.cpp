#include "causeway/tensor/operand.h"

#include <algorithm>
#include <cmath>

#include "causeway/graph/op.h"
#include "causeway/tensor/trace.h"

namespace causeway::tensor {
namespace {

// Where a dtype stands among those that are not floats.
int integer_rank(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return 0;
    case DType::kU8:
      return 1;
    case DType::kI16:
      return 2;
    case DType::kI32:
      return 3;
    default:
      return 4;
  }
}

bool is_narrowest_float(DType dtype) { return dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2; }

DType dtype_alone(Operand::NumberKind kind) {
  switch (kind) {
    case Operand::NumberKind::kBool:
      return DType::kBool;
    case Operand::NumberKind::kInteger:
      return DType::kI64;
    default:
      return DType::kF32;
  }
}

DType dtype_beside(Operand::NumberKind kind, DType tensor) {
  if (is_float(tensor) || kind == Operand::NumberKind::kBool) return tensor;
  if (kind == Operand::NumberKind::kFraction) return DType::kF32;
  return tensor == DType::kBool ? DType::kI64 : tensor;
}

DType common_dtype(std::initializer_list<Operand> operands) {
  std::optional<DType> dtype;
  for (const Operand& operand : operands) {
    if (operand.is_number()) continue;
    dtype = dtype ? promote_dtypes(*dtype, operand.tensor().dtype()) : operand.tensor().dtype();
  }
  // Numbers among themselves decide by kind, the widest first, as enumerators are ordered.
  std::optional<Operand::NumberKind> widest;
  for (const Operand& operand : operands)
    if (operand.is_number()) widest = widest ? std::max(*widest, operand.number_kind()) : operand.number_kind();
  if (!widest) return *dtype;
  return dtype ? dtype_beside(*widest, *dtype) : dtype_alone(*widest);
}

Tensor number_tensor(std::string_view function, const Operand& operand, DType dtype, const Shape& shape) {
  const double number = operand.number();
  if (!is_float(dtype) && (round_to_dtype(dtype, number) != number))
    throw_argument_error(function, fmt::format("{} does not fit in {}", number, dtype_name(dtype)), {},
                         "Cast the tensor to a wider dtype first.");
  return constant_tensor(dtype, shape, number);
}

Tensor broadcast_from(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  Attributes attributes;
  attributes.shape = shape;
  const auto offset = static_cast<int64_t>(shape.size()) - x.rank();
  for (int64_t i = 0; i < x.rank(); ++i) attributes.axes.push_back(offset + i);
  return apply(Op::kBroadcast, {x}, std::move(attributes));
}

std::vector<Tensor> match_to(std::string_view function, std::initializer_list<Operand> operands, DType dtype) {
  std::vector<Shape> shapes;
  for (const Operand& operand : operands)
    if (!operand.is_number()) shapes.push_back(operand.tensor().shape());
  const Shape shape = broadcast_shapes(function, shapes);
  std::vector<Tensor> tensors;
  for (const Operand& operand : operands)
    tensors.push_back(operand.is_number() ? number_tensor(function, operand, dtype, shape)
                                          : broadcast_from(cast(operand.tensor(), dtype), shape));
  return tensors;
}

}  // namespace

void Operand::require_exact(double number) {
  if (std::fabs(number) <= 9007199254740992.0) return;
  throw Error(ErrorKind::kInvalidArgument,
              fmt::format("the integer {:.0f} is beyond 2^53, where numbers are no longer exact", number), {},
              "Make a tensor from bytes for integers of that size.");
}

DType promote_dtypes(DType a, DType b) {
  if (a == b) return a;
  if (is_float(a) != is_float(b)) return is_float(a) ? a : b;
  if (!is_float(a)) return integer_rank(a) < integer_rank(b) ? b : a;
  if (is_narrowest_float(a) && !is_narrowest_float(b)) return b;
  if (is_narrowest_float(b) && !is_narrowest_float(a)) return a;
  return DType::kF32;
}

Shape broadcast_shapes(std::string_view function, std::span<const Shape> shapes) {
  size_t rank = 0;
  for (const Shape& shape : shapes) rank = std::max(rank, shape.size());
  Shape result(rank, Dim(1));
  for (const Shape& shape : shapes) {
    for (size_t i = 0; i < shape.size(); ++i) {
      Dim& size = result[rank - shape.size() + i];
      if (size.is_constant(1)) size = shape[i];
      if (shape[i].is_constant(1) || shape[i] == size) continue;
      std::string texts;
      for (const Shape& each : shapes) texts += (texts.empty() ? "" : " and ") + shape_text(each);
      throw_argument_error(function,
                           fmt::format("the shapes {} do not broadcast: axis {} from the end has sizes {} and {}",
                                       texts, shape.size() - i, size.text(), shape[i].text()),
                           {}, "Sizes must be equal or 1; reshape or unsqueeze one of the tensors.");
    }
  }
  return result;
}

std::vector<Tensor> match_operands(std::string_view function, std::initializer_list<Operand> operands) {
  return match_to(function, operands, common_dtype(operands));
}

std::vector<Tensor> match_float_operands(std::string_view function, std::initializer_list<Operand> operands) {
  const DType dtype = common_dtype(operands);
  return match_to(function, operands, is_float(dtype) ? dtype : DType::kF32);
}

std::vector<Tensor> broadcast_tensors(std::string_view function, std::span<const Tensor> tensors) {
  std::vector<Shape> shapes;
  for (const Tensor& tensor : tensors) shapes.push_back(tensor.shape());
  const Shape shape = broadcast_shapes(function, shapes);
  std::vector<Tensor> results;
  for (const Tensor& tensor : tensors) results.push_back(broadcast_from(tensor, shape));
  return results;
}

size_t resolve_axis(std::string_view function, const Tensor& x, int64_t axis) {
  const int64_t index = axis < 0 ? axis + x.rank() : axis;
  if (index < 0 || index >= x.rank())
    throw_argument_error(function, fmt::format("there is no axis {}", axis), std::span(&x, 1));
  return static_cast<size_t>(index);
}

std::vector<int64_t> resolve_axes(std::string_view function, const Tensor& x, const Axes& axes) {
  std::vector<int64_t> resolved;
  if (axes.list().empty())
    for (int64_t i = 0; i < x.rank(); ++i) resolved.push_back(i);
  for (const int64_t axis : axes.list()) resolved.push_back(static_cast<int64_t>(resolve_axis(function, x, axis)));
  std::sort(resolved.begin(), resolved.end());
  const auto repeated = std::adjacent_find(resolved.begin(), resolved.end());
  if (repeated != resolved.end())
    throw_argument_error(function, fmt::format("axis {} was given twice", *repeated), std::span(&x, 1));
  return resolved;
}

void throw_argument_error(std::string_view function, const std::string& what, std::span<const Tensor> tensors,
                          const std::string& hint) {
  std::string types;
  for (const Tensor& tensor : tensors)
    types += (types.empty() ? "; it was given (" : ", ") + (tensor.defined() ? tensor.type().text() : "nothing");
  if (!types.empty()) types += ")";
  throw Error(ErrorKind::kInvalidArgument, fmt::format("{}: {}{}", function, what, types),
              Trace::current().graph.scope(), hint);
}

void require_argument(bool condition, std::string_view function, const std::string& what,
                      std::initializer_list<Tensor> tensors, const std::string& hint) {
  if (!condition) throw_argument_error(function, what, std::span(tensors.begin(), tensors.size()), hint);
}

Tensor dimension_scalar(const Dim& dim, DType dtype) {
  if (dim.is_constant()) return constant_tensor(dtype, {}, static_cast<double>(dim.constant()));
  Attributes attributes;
  attributes.axes = {0};
  return cast(apply(Op::kReduceSum, {constant_tensor(DType::kI32, {dim}, 1)}, attributes), dtype);
}

Tensor constant_tensor(DType dtype, Shape shape, double value) {
  Attributes attributes;
  attributes.dtype = dtype;
  attributes.shape = std::move(shape);
  attributes.value = value;
  return apply(Op::kConstant, {}, std::move(attributes));
}

Tensor index_tensor(DType dtype, Shape shape, int64_t axis) {
  Attributes attributes;
  attributes.dtype = dtype;
  attributes.shape = std::move(shape);
  attributes.axes = {axis};
  return apply(Op::kIota, {}, std::move(attributes));
}

Tensor cast(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  Attributes attributes;
  attributes.dtype = dtype;
  return apply(Op::kCast, {x}, std::move(attributes));
}

}  // namespace causeway::tensor
