// Tensors made from nothing or from another one's shape. Sizes may be symbolic unless said otherwise.
#pragma once

#include "causeway/tensor/operand.h"

namespace causeway::tensor {

Tensor full(const Shape& shape, double value, DType dtype = DType::kF32);
Tensor zeros(const Shape& shape, DType dtype = DType::kF32);
Tensor ones(const Shape& shape, DType dtype = DType::kF32);
Tensor full_like(const Tensor& x, double value);
Tensor zeros_like(const Tensor& x);
Tensor ones_like(const Tensor& x);

// 0, 1, ..., count - 1.
Tensor arange(const Dim& count, DType dtype = DType::kI32);
// start, start + step, ... while below end (above it for a negative step). Integers take whole numbers.
Tensor arange(double start, double end, double step = 1, DType dtype = DType::kF32);
// `count` numbers from start to end, both included, evenly spaced; f32.
Tensor linspace(double start, double end, int64_t count);
// Ones on the diagonal; square when no columns are given.
Tensor eye(const Dim& rows, std::optional<Dim> columns = std::nullopt, DType dtype = DType::kF32);

// The elements of the last two axes with column <= row + diagonal (tril) or >= (triu), zeros elsewhere.
Tensor tril(const Tensor& x, int64_t diagonal = 0);
Tensor triu(const Tensor& x, int64_t diagonal = 0);

}  // namespace causeway::tensor
