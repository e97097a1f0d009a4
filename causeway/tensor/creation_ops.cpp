#include "causeway/tensor/creation_ops.h"

#include <cmath>
#include <utility>

#include "causeway/tensor/arithmetic_ops.h"
#include "causeway/tensor/comparison_ops.h"

namespace causeway::tensor {
namespace {

// Column minus row of each element of the last two axes of `shape`.
Tensor diagonal_distance(const Shape& shape) {
  const auto rank = static_cast<int64_t>(shape.size());
  return index_tensor(DType::kI32, shape, rank - 1) - index_tensor(DType::kI32, shape, rank - 2);
}

}  // namespace

Tensor full(const Shape& shape, double value, DType dtype) {
  require_argument(is_float(dtype) || round_to_dtype(dtype, value) == value, "full",
                   fmt::format("{} does not fit in {}", value, dtype_name(dtype)));
  return constant_tensor(dtype, shape, value);
}

Tensor zeros(const Shape& shape, DType dtype) { return constant_tensor(dtype, shape, 0); }
Tensor ones(const Shape& shape, DType dtype) { return constant_tensor(dtype, shape, 1); }
Tensor full_like(const Tensor& x, double value) { return full(x.shape(), value, x.dtype()); }
Tensor zeros_like(const Tensor& x) { return constant_like(x, 0); }
Tensor ones_like(const Tensor& x) { return constant_like(x, 1); }

Tensor arange(const Dim& count, DType dtype) { return index_tensor(dtype, {count}, 0); }

Tensor arange(double start, double end, double step, DType dtype) {
  require_argument(step != 0 && std::isfinite(start) && std::isfinite(end) && std::isfinite(step), "arange",
                   fmt::format("there is no range from {} to {} in steps of {}", start, end, step));
  const double count = std::max(0.0, std::ceil((end - start) / step));
  const Shape shape = {static_cast<int64_t>(count)};
  if (is_float(dtype)) return cast(index_tensor(DType::kF32, shape, 0) * step + start, dtype);
  require_argument(start == std::floor(start) && step == std::floor(step), "arange",
                   fmt::format("integers do not go from {} in steps of {}", start, step));
  const double last = start + step * std::max(0.0, count - 1);
  require_argument(
      dtype != DType::kBool && round_to_dtype(dtype, start) == start && round_to_dtype(dtype, last) == last, "arange",
      fmt::format("{} to {} does not fit in {}", start, last, dtype_name(dtype)));
  const Tensor index = index_tensor(DType::kI64, shape, 0);
  return cast(index * static_cast<int64_t>(step) + static_cast<int64_t>(start), dtype);
}

Tensor linspace(double start, double end, int64_t count) {
  require_argument(count >= 0, "linspace", fmt::format("a count of {}", count));
  const Tensor index = index_tensor(DType::kF32, {count}, 0);
  if (count < 2) return index * 0.0 + start;
  // From the nearer end, so that both are exact.
  const double step = (end - start) / static_cast<double>(count - 1), last = static_cast<double>(count - 1);
  return where(lt(index, last / 2), index * step + start, end - (last - index) * step);
}

Tensor eye(const Dim& rows, std::optional<Dim> columns, DType dtype) {
  return cast(eq(diagonal_distance({rows, std::move(columns).value_or(rows)}), 0), dtype);
}

Tensor tril(const Tensor& x, int64_t diagonal) {
  require_argument(x.rank() >= 2, "tril", "takes at least two axes", {x});
  return where(le(diagonal_distance(x.shape()), diagonal), x, constant_like(x, 0));
}

Tensor triu(const Tensor& x, int64_t diagonal) {
  require_argument(x.rank() >= 2, "triu", "takes at least two axes", {x});
  return where(ge(diagonal_distance(x.shape()), diagonal), x, constant_like(x, 0));
}

}  // namespace causeway::tensor
