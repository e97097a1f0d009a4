// Arguments of the op library: operands that are tensors or numbers, lists of axes, and the rules that bring operands
// to one dtype and shape.
//
// Promotion: bool < u8 < i32 < i64 < floats. Two float dtypes that differ give the wider one, and f32 where neither
// holds the other (bf16 with f16, the two 8-bit floats). An integer beside a float takes the float's dtype. A number
// takes the dtype of the tensor beside it: only a fraction beside an integer tensor makes f32, and an integer beside a
// bool tensor makes i64. An integer that the dtype cannot hold is an error, never a wrapped value.
// Broadcasting: as NumPy does, from the last axis; two symbolic sizes broadcast when they are equal.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/tensor/tensor.h"

namespace causeway::tensor {

// A tensor, or a number.
class Operand {
 public:
  Operand(const Tensor& tensor) : tensor_(tensor) {}  // NOLINT: tensors are operands
  template <class Number>
    requires std::is_arithmetic_v<Number>
  Operand(Number number)  // NOLINT: numbers are operands
      : is_number_(true), kind_(kind_of<Number>()), number_(static_cast<double>(number)) {
    if constexpr (std::is_integral_v<Number> && sizeof(Number) == 8) require_exact(number_);
  }

  enum class NumberKind { kBool, kInteger, kFraction };
  bool is_number() const { return is_number_; }
  const Tensor& tensor() const { return tensor_; }
  double number() const { return number_; }
  NumberKind number_kind() const { return kind_; }

 private:
  template <class Number>
  static constexpr NumberKind kind_of() {
    if constexpr (std::is_same_v<Number, bool>) return NumberKind::kBool;
    return std::is_integral_v<Number> ? NumberKind::kInteger : NumberKind::kFraction;
  }
  // Throws Error(kInvalidArgument) for an integer beyond 2^53 in magnitude.
  static void require_exact(double number);

  Tensor tensor_;
  bool is_number_ = false;
  NumberKind kind_ = NumberKind::kFraction;
  double number_ = 0;
};

// Axes of a tensor; negative ones count from the end. None means all of them.
class Axes {
 public:
  Axes() = default;
  Axes(int64_t axis) : axes_{axis} {}                          // NOLINT: one axis
  Axes(std::initializer_list<int64_t> axes) : axes_(axes) {}   // NOLINT: several
  Axes(std::vector<int64_t> axes) : axes_(std::move(axes)) {}  // NOLINT: several
  const std::vector<int64_t>& list() const { return axes_; }

 private:
  std::vector<int64_t> axes_;
};

DType promote_dtypes(DType a, DType b);
// Throws Error(kInvalidArgument) that names `function` and the shapes when they do not broadcast.
Shape broadcast_shapes(std::string_view function, std::span<const Shape> shapes);

// The operands as tensors of one dtype and shape. Numbers alone give f32, i64 or bool.
std::vector<Tensor> match_operands(std::string_view function, std::initializer_list<Operand> operands);
// The same, and integers become f32.
std::vector<Tensor> match_float_operands(std::string_view function, std::initializer_list<Operand> operands);
// One shape, each its own dtype.
std::vector<Tensor> broadcast_tensors(std::string_view function, std::span<const Tensor> tensors);

// `axis` counted from 0; throws Error(kInvalidArgument) naming `function` when x has no such axis.
size_t resolve_axis(std::string_view function, const Tensor& x, int64_t axis);
// Ascending, from 0; throws also when one is given twice.
std::vector<int64_t> resolve_axes(std::string_view function, const Tensor& x, const Axes& axes);

// Throws Error(kInvalidArgument) "function: what; it was given (types)", located in the current scope.
[[noreturn]] void throw_argument_error(std::string_view function, const std::string& what,
                                       std::span<const Tensor> tensors = {}, const std::string& hint = {});
void require_argument(bool condition, std::string_view function, const std::string& what,
                      std::initializer_list<Tensor> tensors = {}, const std::string& hint = {});

// x computed with in f32: cast there, and the result back to x's dtype (f32 for integers). What a composite of several
// ops does for narrow floats, so that they are rounded once.
template <class Function>
Tensor compute_in_f32(const Tensor& x, Function function);

// A dimension as an f32 scalar tensor: a constant, or for a symbolic size counted when the program runs.
Tensor dimension_scalar(const Dim& dim, DType dtype = DType::kF32);

// `value` in every element.
Tensor constant_tensor(DType dtype, Shape shape, double value);
inline Tensor constant_like(const Tensor& x, double value) { return constant_tensor(x.dtype(), x.shape(), value); }
// Index along `axis` of `shape`.
Tensor index_tensor(DType dtype, Shape shape, int64_t axis);
// To `dtype`; x itself when it has it.
Tensor cast(const Tensor& x, DType dtype);

template <class Function>
Tensor compute_in_f32(const Tensor& x, Function function) {
  const DType dtype = is_float(x.dtype()) ? x.dtype() : DType::kF32;
  return cast(function(cast(x, DType::kF32)), dtype);
}

}  // namespace causeway::tensor
