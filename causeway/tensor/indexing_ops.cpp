#include "causeway/tensor/indexing_ops.h"

#include "causeway/graph/op.h"
#include "causeway/tensor/arithmetic_ops.h"
#include "causeway/tensor/comparison_ops.h"
#include "causeway/tensor/shape_ops.h"

namespace causeway::tensor {
namespace {

void require_index(std::string_view function, const Tensor& index) {
  require_argument(index.dtype() == DType::kI32 || index.dtype() == DType::kI64, function, "takes i32 or i64 indices",
                   {index});
}

Tensor primitive_gather(const Tensor& x, const Tensor& index, int64_t axis) {
  Attributes attributes;
  attributes.axes = {axis};
  return apply(Op::kGather, {x, index}, std::move(attributes));
}

Tensor primitive_scatter_add(const Tensor& x, const Tensor& index, const Tensor& updates, int64_t axis,
                             bool replaces = false) {
  require_argument(x.dtype() == updates.dtype() && x.dtype() != DType::kBool, "scatter_add",
                   "takes numbers of one dtype", {x, updates});
  Attributes attributes;
  attributes.axes = {axis};
  attributes.replaces = replaces;
  return apply(Op::kScatterAdd, {x, index, updates}, std::move(attributes));
}

// The axis, resolved.
int64_t require_slices(std::string_view function, const Tensor& x, int64_t axis, const Tensor& index,
                       const Tensor& source) {
  const size_t along = resolve_axis(function, x, axis);
  require_index(function, index);
  Shape shape = x.shape();
  if (index.rank() == 1) shape[along] = index.size(0);
  require_argument(index.rank() == 1 && source.shape() == shape, function,
                   "takes a 1-D index and a source with as many slices", {x, index, source});
  return static_cast<int64_t>(along);
}

// Row-major position in x of each element of `index`, which counts along `axis` and elsewhere stays in place; i64,
// because a tensor may have more than 2^31 elements.
Tensor flat_positions(const Tensor& x, const Tensor& index, int64_t axis) {
  Tensor position = constant_tensor(DType::kI64, index.shape(), 0);
  for (int64_t i = 0; i < x.rank(); ++i) {
    const Tensor along = i == axis ? cast(index, DType::kI64) : index_tensor(DType::kI64, index.shape(), i);
    position = position * dimension_scalar(x.size(i), DType::kI64) + along;
  }
  return position;
}

}  // namespace

Tensor gather(const Tensor& x, int64_t axis, const Tensor& index) {
  const auto along = static_cast<int64_t>(resolve_axis("gather", x, axis));
  require_index("gather", index);
  require_argument(index.rank() == x.rank(), "gather", "takes an index of the tensor's rank", {x, index});
  Shape from = x.shape(), to = index.shape();
  for (int64_t i = 0; i < x.rank(); ++i) {
    const auto at = static_cast<size_t>(i);
    if (i == along) continue;
    require_argument(from[at] == to[at] || from[at].is_constant(1) || to[at].is_constant(1), "gather",
                     fmt::format("axis {} has different sizes", i), {x, index});
    if (from[at].is_constant(1)) from[at] = to[at];
    to[at] = from[at];
  }
  const Tensor whole = broadcast_to(x, from), positions = broadcast_to(index, to);
  const Tensor last = dimension_scalar(from[static_cast<size_t>(along)], positions.dtype()) - 1;
  const Tensor inside = minimum(maximum(positions, 0), last);
  return primitive_gather(reshape(whole, {element_count(from)}), flat_positions(whole, inside, along), 0);
}

Tensor index_select(const Tensor& x, int64_t axis, const Tensor& index) {
  require_index("index_select", index);
  return primitive_gather(x, index, static_cast<int64_t>(resolve_axis("index_select", x, axis)));
}

Tensor embedding(const Tensor& ids, const Tensor& weight) {
  require_index("embedding", ids);
  require_argument(weight.rank() == 2, "embedding", "takes a weight of shape [vocabulary, channels]", {ids, weight});
  return primitive_gather(weight, ids, 0);
}

Tensor at(const Tensor& x, const std::vector<Tensor>& indices) {
  Tensor element = x;
  require_argument(static_cast<int64_t>(indices.size()) <= x.rank(), "at",
                   fmt::format("{} indices for a tensor of {} axes", indices.size(), x.rank()), {x});
  for (const Tensor& index : indices) {
    require_index("at", index);
    require_argument(index.rank() == 0, "at", "takes scalar indices", {x, index});
    element = primitive_gather(element, index, 0);
  }
  return element;
}

Tensor scatter_add(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source) {
  const auto along = static_cast<int64_t>(resolve_axis("scatter_add", x, axis));
  require_index("scatter_add", index);
  bool fits = index.shape() == source.shape() && index.rank() == x.rank();
  for (int64_t i = 0; fits && i < x.rank(); ++i) fits = i == along || index.size(i) == x.size(i);
  require_argument(fits, "scatter_add",
                   fmt::format("takes an index and a source of one shape, the tensor's beside axis {}", axis),
                   {x, index, source});
  const Tensor inside = logical_and(ge(index, 0), lt(index, dimension_scalar(x.size(along), index.dtype())));
  const Tensor positions = where(inside, flat_positions(x, index, along), -1);
  const Tensor sums =
      primitive_scatter_add(reshape(x, {element_count(x.shape())}), reshape(positions, {-1}), reshape(source, {-1}), 0);
  return reshape(sums, x.shape());
}

Tensor index_add(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source) {
  const int64_t along = require_slices("index_add", x, axis, index, source);
  return primitive_scatter_add(x, index, source, along);
}

Tensor index_copy(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source) {
  const int64_t along = require_slices("index_copy", x, axis, index, source);
  return primitive_scatter_add(x, index, source, along, true);
}

Tensor gather_permuted(const Tensor& x, const Tensor& index) {
  Attributes attributes;
  attributes.axes = {0};
  attributes.permutes = true;
  return reshape(apply(Op::kGather, {x, index}, std::move(attributes)), x.shape());
}

// passes/builder.cpp knows it by this form (permutation_back()).
Tensor inverse_permutation(const Tensor& index) {
  const Shape rows = {element_count(index.shape())};
  Attributes attributes;
  attributes.axes = {0};
  attributes.permutes = true;
  const Tensor numbers = reshape(index_tensor(DType::kI32, rows, 0), index.shape());
  const Tensor zeros = constant_tensor(DType::kI32, rows, 0);
  return reshape(apply(Op::kScatterAdd, {zeros, index, numbers}, std::move(attributes)), index.shape());
}

Tensor one_hot(const Tensor& index, int64_t classes, DType dtype) {
  require_index("one_hot", index);
  require_argument(classes >= 1, "one_hot", fmt::format("{} classes", classes), {index});
  Shape shape = index.shape();
  shape.emplace_back(classes);
  return cast(eq(unsqueeze(index, -1), index_tensor(index.dtype(), shape, index.rank())), dtype);
}

}  // namespace causeway::tensor
