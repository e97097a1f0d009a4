#include "causeway/tensor/shape_ops.h"

#include <algorithm>
#include <numeric>

#include "causeway/graph/op.h"

namespace causeway::tensor {
namespace {

Tensor reshape_to(const Tensor& x, Shape shape) {
  if (x.shape() == shape) return x;
  Attributes attributes;
  attributes.shape = std::move(shape);
  return apply(Op::kReshape, {x}, std::move(attributes));
}

// `sizes` with a -1 replaced so that their product is `count`.
Shape complete_sizes(std::string_view function, const Tensor& x, Shape sizes, const Dim& count) {
  Dim* unknown = nullptr;
  Dim known(1);
  for (Dim& size : sizes) {
    if (!size.is_constant(-1)) {
      known *= size;
      continue;
    }
    require_argument(unknown == nullptr, function, fmt::format("{} has more than one -1", shape_text(sizes)), {x});
    unknown = &size;
  }
  if (unknown == nullptr) {
    require_argument(known == count, function,
                     fmt::format("{} has {} elements, not {}", shape_text(sizes), known.text(), count.text()), {x});
    return sizes;
  }
  const std::optional<Dim> size = known.is_constant(0) ? std::nullopt : count.divide_exactly(known);
  require_argument(size.has_value(), function,
                   fmt::format("{} elements are no whole number of {}", count.text(), shape_text(sizes)), {x},
                   "A symbolic size must be declared as a multiple of what it is divided by.");
  *unknown = *size;
  return sizes;
}

// A negative constant counted from the end of an axis.
Dim from_start(const Dim& index, const Dim& size) {
  return index.is_constant() && index.constant() < 0 ? size + index : index;
}

std::vector<Tensor> promoted(std::string_view function, const std::vector<Tensor>& tensors) {
  require_argument(!tensors.empty(), function, "takes at least one tensor");
  DType dtype = tensors[0].dtype();
  for (const Tensor& tensor : tensors) dtype = promote_dtypes(dtype, tensor.dtype());
  std::vector<Tensor> results;
  for (const Tensor& tensor : tensors) results.push_back(cast(tensor, dtype));
  return results;
}

}  // namespace

Tensor reshape(const Tensor& x, const Shape& shape) {
  return reshape_to(x, complete_sizes("reshape", x, shape, element_count(x.shape())));
}

Tensor flatten(const Tensor& x, int64_t first, int64_t last) {
  if (x.rank() == 0) return reshape_to(x, {1});
  const size_t begin = resolve_axis("flatten", x, first), end = resolve_axis("flatten", x, last);
  require_argument(begin <= end, "flatten", fmt::format("axis {} comes after axis {}", first, last), {x});
  Shape shape(x.shape().begin(), x.shape().begin() + static_cast<ptrdiff_t>(begin));
  Dim product(1);
  for (size_t i = begin; i <= end; ++i) product *= x.shape()[i];
  shape.push_back(product);
  shape.insert(shape.end(), x.shape().begin() + static_cast<ptrdiff_t>(end) + 1, x.shape().end());
  return reshape_to(x, std::move(shape));
}

Tensor unflatten(const Tensor& x, int64_t axis, const Shape& sizes) {
  const size_t at = resolve_axis("unflatten", x, axis);
  const Shape inner = complete_sizes("unflatten", x, sizes, x.shape()[at]);
  Shape shape = x.shape();
  shape.erase(shape.begin() + static_cast<ptrdiff_t>(at));
  shape.insert(shape.begin() + static_cast<ptrdiff_t>(at), inner.begin(), inner.end());
  return reshape_to(x, std::move(shape));
}

Tensor squeeze(const Tensor& x, const Axes& axes) {
  Shape shape;
  const std::vector<int64_t> removed = resolve_axes("squeeze", x, axes);
  for (int64_t i = 0; i < x.rank(); ++i) {
    const bool chosen = std::binary_search(removed.begin(), removed.end(), i);
    const bool single = x.size(i).is_constant(1);
    require_argument(!chosen || single || axes.list().empty(), "squeeze", fmt::format("axis {} is not of size 1", i),
                     {x});
    if (!chosen || !single) shape.push_back(x.size(i));
  }
  return reshape_to(x, std::move(shape));
}

Tensor unsqueeze(const Tensor& x, int64_t axis) {
  const int64_t at = axis < 0 ? axis + x.rank() + 1 : axis;
  require_argument(at >= 0 && at <= x.rank(), "unsqueeze", fmt::format("there is no place {} for an axis", axis), {x});
  Shape shape = x.shape();
  shape.insert(shape.begin() + at, Dim(1));
  return reshape_to(x, std::move(shape));
}

Tensor transpose(const Tensor& x, int64_t first, int64_t second) {
  std::vector<int64_t> axes(x.shape().size());
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[resolve_axis("transpose", x, first)], axes[resolve_axis("transpose", x, second)]);
  return permute(x, axes);
}

Tensor permute(const Tensor& x, const std::vector<int64_t>& axes) {
  Attributes attributes;
  for (const int64_t axis : axes) attributes.axes.push_back(static_cast<int64_t>(resolve_axis("permute", x, axis)));
  std::vector<int64_t> sorted = attributes.axes, all(x.shape().size());
  std::sort(sorted.begin(), sorted.end());
  std::iota(all.begin(), all.end(), 0);
  require_argument(sorted == all, "permute", fmt::format("({}) is no order of the axes", fmt::join(axes, ", ")), {x});
  if (attributes.axes == all) return x;
  return apply(Op::kPermute, {x}, std::move(attributes));
}

Tensor movedim(const Tensor& x, int64_t from, int64_t to) {
  const size_t source = resolve_axis("movedim", x, from), target = resolve_axis("movedim", x, to);
  std::vector<int64_t> axes(x.shape().size());
  std::iota(axes.begin(), axes.end(), 0);
  axes.erase(axes.begin() + static_cast<ptrdiff_t>(source));
  axes.insert(axes.begin() + static_cast<ptrdiff_t>(target), static_cast<int64_t>(source));
  return permute(x, axes);
}

Tensor broadcast_to(const Tensor& x, const Shape& shape) {
  const auto extra = static_cast<int64_t>(shape.size()) - x.rank();
  bool fits = extra >= 0;
  Attributes attributes;
  for (int64_t i = 0; i < x.rank() && fits; ++i) {
    fits = x.size(i).is_constant(1) || x.size(i) == shape[static_cast<size_t>(extra + i)];
    attributes.axes.push_back(extra + i);
  }
  require_argument(fits, "broadcast_to", fmt::format("the tensor does not broadcast to {}", shape_text(shape)), {x});
  if (x.shape() == shape) return x;
  attributes.shape = shape;
  return apply(Op::kBroadcast, {x}, std::move(attributes));
}

Tensor expand(const Tensor& x, const Shape& shape) {
  require_argument(static_cast<int64_t>(shape.size()) >= x.rank(), "expand",
                   fmt::format("{} has fewer axes than the tensor", shape_text(shape)), {x});
  Shape target = shape;
  const size_t extra = shape.size() - x.shape().size();
  for (size_t i = 0; i < target.size(); ++i) {
    if (!target[i].is_constant(-1)) continue;
    require_argument(i >= extra, "expand", "-1 keeps a size, but a new axis has none", {x});
    target[i] = x.shape()[i - extra];
  }
  return broadcast_to(x, target);
}

Tensor slice(const Tensor& x, int64_t axis, const Dim& start, std::optional<Dim> limit, int64_t step) {
  const size_t at = resolve_axis("slice", x, axis);
  const Dim& size = x.shape()[at];
  Attributes attributes;
  attributes.start.assign(x.shape().size(), Dim(0));
  attributes.limit = x.shape();
  attributes.strides.assign(x.shape().size(), 1);
  attributes.start[at] = from_start(start, size);
  attributes.limit[at] = limit ? from_start(*limit, size) : size;
  attributes.strides[at] = step;
  const Dim &first = attributes.start[at], &end = attributes.limit[at];
  if (first.is_constant(0) && end == size && step == 1) return x;
  const auto inside = [&](const Dim& index) {
    return !index.is_constant() ||
           (index.constant() >= 0 && (!size.is_constant() || index.constant() <= size.constant()));
  };
  const bool ordered = !first.is_constant() || !end.is_constant() || first.constant() <= end.constant();
  require_argument(inside(first) && inside(end) && ordered, "slice",
                   fmt::format("{} to {} does not lie within axis {}", start.text(), limit.value_or(size).text(), axis),
                   {x});
  require_argument(step == 1 || (step > 1 && (end - first).is_constant()), "slice",
                   fmt::format("a step of {} along a range of {}", step, (end - first).text()), {x},
                   "Steps are at least 1, and exactly 1 along a symbolic range.");
  return apply(Op::kSlice, {x}, std::move(attributes));
}

Tensor narrow(const Tensor& x, int64_t axis, const Dim& start, const Dim& length) {
  const Dim first = from_start(start, x.shape()[resolve_axis("narrow", x, axis)]);
  return slice(x, axis, first, first + length);
}

Tensor select(const Tensor& x, int64_t axis, const Dim& index) {
  const size_t at = resolve_axis("select", x, axis);
  const Dim first = from_start(index, x.shape()[at]);
  require_argument(!first.is_constant() || !x.shape()[at].is_constant() ||
                       (first.constant() >= 0 && first.constant() < x.shape()[at].constant()),
                   "select", fmt::format("index {} is not on axis {}", index.text(), axis), {x});
  Shape shape = x.shape();
  shape.erase(shape.begin() + static_cast<ptrdiff_t>(at));
  return reshape_to(slice(x, axis, first, first + 1), std::move(shape));
}

std::vector<Tensor> split(const Tensor& x, int64_t size, int64_t axis) {
  const Dim& total = x.shape()[resolve_axis("split", x, axis)];
  require_argument(size >= 1 && total.is_constant(), "split",
                   fmt::format("pieces of {} along axis {} of size {}", size, axis, total.text()), {x},
                   "Along a symbolic axis, give the sizes of the pieces.");
  std::vector<Tensor> pieces;
  for (int64_t start = 0; start == 0 || start < total.constant(); start += size)
    pieces.push_back(slice(x, axis, start, std::min(start + size, total.constant())));
  return pieces;
}

std::vector<Tensor> split(const Tensor& x, const Shape& sizes, int64_t axis) {
  const size_t at = resolve_axis("split", x, axis);
  Dim total(0);
  for (const Dim& size : sizes) total += size;
  require_argument(total == x.shape()[at], "split",
                   fmt::format("pieces of {} do not add up to axis {}", shape_text(sizes), axis), {x});
  std::vector<Tensor> pieces;
  Dim start(0);
  for (const Dim& size : sizes) {
    pieces.push_back(slice(x, axis, start, start + size));
    start += size;
  }
  return pieces;
}

std::vector<Tensor> chunk(const Tensor& x, int64_t count, int64_t axis) {
  const Dim& total = x.shape()[resolve_axis("chunk", x, axis)];
  require_argument(count >= 1, "chunk", fmt::format("{} pieces", count), {x});
  if (total.is_constant()) return split(x, std::max<int64_t>(1, (total.constant() + count - 1) / count), axis);
  const std::optional<Dim> size = total.divide_exactly(count);
  require_argument(size.has_value(), "chunk", fmt::format("axis {} is not known to be a multiple of {}", axis, count),
                   {x});
  return split(x, Shape(static_cast<size_t>(count), *size), axis);
}

Tensor cat(const std::vector<Tensor>& tensors, int64_t axis) {
  const std::vector<Tensor> parts = promoted("cat", tensors);
  const size_t at = resolve_axis("cat", parts[0], axis);
  for (const Tensor& part : parts) {
    bool fits = part.rank() == parts[0].rank();
    for (size_t i = 0; fits && i < part.shape().size(); ++i) fits = i == at || part.shape()[i] == parts[0].shape()[i];
    if (!fits) throw_argument_error("cat", fmt::format("the shapes differ beside axis {}", axis), parts);
  }
  if (parts.size() == 1) return parts[0];
  Attributes attributes;
  attributes.axes = {static_cast<int64_t>(at)};
  return tensor::apply(Op::kConcat, parts, std::move(attributes));
}

Tensor stack(const std::vector<Tensor>& tensors, int64_t axis) {
  std::vector<Tensor> parts = promoted("stack", tensors);
  for (const Tensor& part : parts)
    if (part.shape() != parts[0].shape()) throw_argument_error("stack", "the shapes differ", parts);
  for (Tensor& part : parts) part = unsqueeze(part, axis);
  return cat(parts, axis);
}

Tensor pad(const Tensor& x, const Shape& padding, double value) {
  require_argument(padding.size() % 2 == 0 && padding.size() / 2 <= x.shape().size(), "pad",
                   fmt::format("{} is no list of pairs for at most {} axes", shape_text(padding), x.rank()), {x});
  Attributes attributes;
  attributes.start.assign(x.shape().size(), Dim(0));
  attributes.limit.assign(x.shape().size(), Dim(0));
  attributes.value = value;
  Tensor cut = x;
  bool any = false;
  for (size_t i = 0; i < padding.size() / 2; ++i) {
    const size_t axis = x.shape().size() - 1 - i;
    Dim before = padding[2 * i], after = padding[2 * i + 1];
    const auto negative = [](const Dim& dim) { return dim.is_constant() && dim.constant() < 0; };
    if (negative(before) || negative(after)) {
      const Dim start = negative(before) ? Dim(0) - before : Dim(0);
      const Dim limit = negative(after) ? x.shape()[axis] + after : x.shape()[axis];
      cut = slice(cut, static_cast<int64_t>(axis), start, limit);
      if (negative(before)) before = 0;
      if (negative(after)) after = 0;
    }
    any = any || !before.is_constant(0) || !after.is_constant(0);
    attributes.start[axis] = before;
    attributes.limit[axis] = after;
  }
  return any ? apply(Op::kPad, {cut}, std::move(attributes)) : cut;
}

Tensor flip(const Tensor& x, const Axes& axes) {
  Tensor result = x;
  for (const int64_t axis : resolve_axes("flip", x, axes)) {
    const Dim& size = x.size(axis);
    const Tensor last = apply(Op::kSub, {dimension_scalar(size, DType::kI32), constant_tensor(DType::kI32, {}, 1)});
    const Tensor reversed = apply(Op::kSub, {broadcast_to(last, {size}), index_tensor(DType::kI32, {size}, 0)});
    Attributes attributes;
    attributes.axes = {axis};
    result = apply(Op::kGather, {result, reversed}, std::move(attributes));
  }
  return result;
}

Tensor roll(const Tensor& x, int64_t shift, int64_t axis) {
  const Dim& size = x.shape()[resolve_axis("roll", x, axis)];
  require_argument(size.is_constant(), "roll", fmt::format("axis {} is symbolic", axis), {x});
  if (size.is_constant(0)) return x;
  const int64_t length = size.constant(), places = (shift % length + length) % length;
  if (places == 0) return x;
  return cat({slice(x, axis, length - places), slice(x, axis, 0, length - places)}, axis);
}

Tensor repeat(const Tensor& x, const Shape& counts) {
  require_argument(static_cast<int64_t>(counts.size()) >= x.rank(), "repeat",
                   fmt::format("{} has fewer counts than the tensor has axes", shape_text(counts)), {x});
  const size_t extra = counts.size() - x.shape().size();
  Attributes attributes;
  Shape merged;
  for (size_t i = 0; i < counts.size(); ++i) {
    attributes.shape.push_back(counts[i]);
    if (i < extra) {
      merged.push_back(counts[i]);
      continue;
    }
    attributes.axes.push_back(static_cast<int64_t>(attributes.shape.size()));
    attributes.shape.push_back(x.shape()[i - extra]);
    merged.push_back(counts[i] * x.shape()[i - extra]);
  }
  return reshape_to(apply(Op::kBroadcast, {x}, std::move(attributes)), std::move(merged));
}

Tensor tile(const Tensor& x, const Shape& counts) {
  Shape all = counts;
  if (all.size() < x.shape().size()) all.insert(all.begin(), x.shape().size() - all.size(), Dim(1));
  return repeat(x, all);
}

Tensor repeat_interleave(const Tensor& x, const Dim& count, int64_t axis) {
  const auto at = static_cast<int64_t>(resolve_axis("repeat_interleave", x, axis));
  Shape shape = x.shape(), merged = x.shape();
  shape.insert(shape.begin() + at + 1, count);
  merged[static_cast<size_t>(at)] *= count;
  Attributes attributes;
  attributes.shape = std::move(shape);
  for (int64_t i = 0; i < x.rank(); ++i) attributes.axes.push_back(i <= at ? i : i + 1);
  return reshape_to(apply(Op::kBroadcast, {x}, std::move(attributes)), std::move(merged));
}

}  // namespace causeway::tensor
