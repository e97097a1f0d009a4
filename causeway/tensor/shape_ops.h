// Movement of elements: no arithmetic, one element of the result is one element of an input or a fill value. Axes may
// be negative, counting from the end; sizes may be symbolic unless said otherwise. Every function throws
// Error(kInvalidArgument) naming itself and the types when the arguments do not fit.
#pragma once

#include "causeway/tensor/operand.h"

namespace causeway::tensor {

// Row-major order kept; one size may be -1 and is worked out.
Tensor reshape(const Tensor& x, const Shape& shape);
// The axes from `first` to `last`, both included, as one.
Tensor flatten(const Tensor& x, int64_t first = 0, int64_t last = -1);
// One axis as several; one size may be -1.
Tensor unflatten(const Tensor& x, int64_t axis, const Shape& sizes);
// Without the given axes of size 1 (all of them when none are given).
Tensor squeeze(const Tensor& x, const Axes& axes = {});
// A new axis of size 1, which becomes axis `axis` of the result.
Tensor unsqueeze(const Tensor& x, int64_t axis);

Tensor transpose(const Tensor& x, int64_t first = -2, int64_t second = -1);
Tensor permute(const Tensor& x, const std::vector<int64_t>& axes);
// One axis to another place, the others in order.
Tensor movedim(const Tensor& x, int64_t from, int64_t to);

Tensor broadcast_to(const Tensor& x, const Shape& shape);
// The same; -1 keeps a size.
Tensor expand(const Tensor& x, const Shape& shape);

// start <= index < limit along an axis, every step-th. Negative constants count from the end; no limit means the end.
Tensor slice(const Tensor& x, int64_t axis, const Dim& start, std::optional<Dim> limit = std::nullopt,
             int64_t step = 1);
Tensor narrow(const Tensor& x, int64_t axis, const Dim& start, const Dim& length);
// One index of an axis, which is removed; a negative constant counts from the end.
Tensor select(const Tensor& x, int64_t axis, const Dim& index);
// Pieces of `size` along a constant axis, the last one smaller if need be.
std::vector<Tensor> split(const Tensor& x, int64_t size, int64_t axis = 0);
// Pieces of the given sizes, which add up to the axis.
std::vector<Tensor> split(const Tensor& x, const Shape& sizes, int64_t axis = 0);
// At most `count` pieces of equal size, the last one smaller if need be; a symbolic axis must be known to divide.
std::vector<Tensor> chunk(const Tensor& x, int64_t count, int64_t axis = 0);

// Along an existing axis; dtypes are promoted.
Tensor cat(const std::vector<Tensor>& tensors, int64_t axis = 0);
// Along a new axis; dtypes are promoted.
Tensor stack(const std::vector<Tensor>& tensors, int64_t axis = 0);
// {before, after} for the last axis, then for the one before it, and so on. Negative constants cut.
Tensor pad(const Tensor& x, const Shape& padding, double value = 0);

// The elements of the axes in reverse order.
Tensor flip(const Tensor& x, const Axes& axes);
// Elements move `shift` places along an axis and re-enter at the other end; constant axis.
Tensor roll(const Tensor& x, int64_t shift, int64_t axis);
// The whole tensor repeated along each axis; more counts than axes make new leading ones.
Tensor repeat(const Tensor& x, const Shape& counts);
// The same; fewer counts than axes leave the leading axes alone.
Tensor tile(const Tensor& x, const Shape& counts);
// Each element `count` times in a row.
Tensor repeat_interleave(const Tensor& x, const Dim& count, int64_t axis);

}  // namespace causeway::tensor
