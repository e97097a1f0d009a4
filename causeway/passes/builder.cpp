#include "causeway/passes/builder.h"

#include <algorithm>
#include <numeric>

#include "causeway/graph/op.h"

namespace causeway::passes {

Value Builder::neg(Value x) const { return graph_.add(Op::kNeg, {x}); }
Value Builder::exp2(Value x) const { return graph_.add(Op::kExp2, {x}); }
Value Builder::log2(Value x) const { return graph_.add(Op::kLog2, {x}); }
Value Builder::tanh(Value x) const { return graph_.add(Op::kTanh, {x}); }
Value Builder::recip(Value x) const { return graph_.add(Op::kRecip, {x}); }
Value Builder::add(Value a, Value b) const { return graph_.add(Op::kAdd, {a, b}); }
Value Builder::sub(Value a, Value b) const { return graph_.add(Op::kSub, {a, b}); }
Value Builder::mul(Value a, Value b) const { return graph_.add(Op::kMul, {a, b}); }
Value Builder::div(Value a, Value b) const { return graph_.add(Op::kDiv, {a, b}); }
Value Builder::less(Value a, Value b) const { return graph_.add(Op::kLt, {a, b}); }
Value Builder::less_equal(Value a, Value b) const { return graph_.add(Op::kLe, {a, b}); }
Value Builder::equal(Value a, Value b) const { return graph_.add(Op::kEq, {a, b}); }
Value Builder::select(Value condition, Value yes, Value no) const {
  return graph_.add(Op::kSelect, {condition, yes, no});
}
Value Builder::reduce_sum(Value x, std::vector<int64_t> axes) const {
  return reduce(Op::kReduceSum, x, std::move(axes));
}
Value Builder::reduce_max(Value x, std::vector<int64_t> axes) const {
  return reduce(Op::kReduceMax, x, std::move(axes));
}

Value Builder::constant(DType dtype, Shape shape, double value) const {
  Attributes attributes;
  attributes.dtype = dtype;
  attributes.shape = std::move(shape);
  attributes.value = value;
  return graph_.add(Op::kConstant, {}, std::move(attributes));
}

Value Builder::iota(DType dtype, Shape shape, int64_t axis) const {
  Attributes attributes;
  attributes.dtype = dtype;
  attributes.shape = std::move(shape);
  attributes.axes = {axis};
  return graph_.add(Op::kIota, {}, std::move(attributes));
}

Value Builder::cast(Value x, DType to) const {
  if (dtype(x) == to) return x;
  Attributes attributes;
  attributes.dtype = to;
  return graph_.add(Op::kCast, {x}, std::move(attributes));
}

Value Builder::reduce(Op op, Value x, std::vector<int64_t> axes) const {
  if (axes.empty()) return x;
  Attributes attributes;
  attributes.axes = std::move(axes);
  return graph_.add(op, {x}, std::move(attributes));
}

Value Builder::reshape(Value x, Shape to) const {
  if (shape(x) == to) return x;
  Attributes attributes;
  attributes.shape = std::move(to);
  return graph_.add(Op::kReshape, {x}, std::move(attributes));
}

Value Builder::permute(Value x, std::vector<int64_t> axes) const {
  if (std::is_sorted(axes.begin(), axes.end())) return x;
  Attributes attributes;
  attributes.axes = std::move(axes);
  return graph_.add(Op::kPermute, {x}, std::move(attributes));
}

Value Builder::broadcast(Value x, Shape to, std::vector<int64_t> axes) const {
  if (shape(x) == to) return x;
  Attributes attributes;
  attributes.shape = std::move(to);
  attributes.axes = std::move(axes);
  return graph_.add(Op::kBroadcast, {x}, std::move(attributes));
}

Value Builder::broadcast_over(Value x, Shape to, const std::vector<int64_t>& axes) const {
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < static_cast<int64_t>(to.size()); ++i)
    if (!std::binary_search(axes.begin(), axes.end(), i)) kept.push_back(i);
  return broadcast(x, std::move(to), std::move(kept));
}

Value Builder::slice_axis(Value x, int64_t axis, Dim start, Dim limit) const {
  Shape starts(shape(x).size(), Dim(0));
  Shape limits = shape(x);
  starts[static_cast<size_t>(axis)] = std::move(start);
  limits[static_cast<size_t>(axis)] = std::move(limit);
  return slice(x, std::move(starts), std::move(limits));
}

Value Builder::slice(Value x, Shape start, Shape limit) const {
  if (limit == shape(x) && std::all_of(start.begin(), start.end(), [](const Dim& d) { return d.is_constant(0); }))
    return x;
  Attributes attributes;
  attributes.strides.assign(start.size(), 1);
  attributes.start = std::move(start);
  attributes.limit = std::move(limit);
  return graph_.add(Op::kSlice, {x}, std::move(attributes));
}

Value Builder::pad(Value x, Shape before, Shape after, double value) const {
  const auto none = [](const Dim& d) { return d.is_constant(0); };
  if (std::all_of(before.begin(), before.end(), none) && std::all_of(after.begin(), after.end(), none)) return x;
  Attributes attributes;
  attributes.start = std::move(before);
  attributes.limit = std::move(after);
  attributes.value = value;
  return graph_.add(Op::kPad, {x}, std::move(attributes));
}

Value Builder::concat(std::vector<Value> parts, int64_t axis) const {
  if (parts.size() == 1) return parts[0];
  Attributes attributes;
  attributes.axes = {axis};
  return graph_.add(Op::kConcat, std::move(parts), std::move(attributes));
}

Value Builder::gather(Value x, Value indices, int64_t axis) const {
  Attributes attributes;
  attributes.axes = {axis};
  return graph_.add(Op::kGather, {x, indices}, std::move(attributes));
}

Value Builder::scatter_add(Value base, Value indices, Value updates, int64_t axis, bool replaces) const {
  Attributes attributes;
  attributes.axes = {axis};
  attributes.replaces = replaces;
  return graph_.add(Op::kScatterAdd, {base, indices, updates}, std::move(attributes));
}

Value Builder::permute_rows(Value x, Value indices) const {
  Attributes attributes;
  attributes.axes = {0};
  attributes.permutes = true;
  return reshape(graph_.add(Op::kGather, {x, indices}, std::move(attributes)), shape(x));
}

// Indices that were made so themselves are undone by those that they were made of.
Value Builder::permutation_back(Value indices) const {
  const Node& made = graph_.node(indices);
  if (made.op == Op::kReshape) {
    const Node& scattered = graph_.node(made.inputs[0]);
    if (scattered.op == Op::kScatterAdd && scattered.attributes.permutes) return scattered.inputs[1];
  }
  const Shape given = shape(indices), rows = {element_count(given)};
  Attributes attributes;
  attributes.axes = {0};
  attributes.permutes = true;
  const Value numbers = reshape(iota(dtype(indices), rows, 0), given);
  const Value back = graph_.add(Op::kScatterAdd, {constant(dtype(indices), rows, 0), indices, numbers}, attributes);
  return reshape(back, given);
}

Value Builder::dot(Value a, Value b, bool transpose_a, bool transpose_b, DType to, bool tf32) const {
  Attributes attributes;
  attributes.transpose_a = transpose_a;
  attributes.transpose_b = transpose_b;
  attributes.dtype = to;
  attributes.tf32 = tf32;
  return graph_.add(Op::kDot, {a, b}, std::move(attributes));
}

Value Builder::grouped_dot(Value a, Value b, Value offsets, bool transpose_a, bool transpose_b, DType to,
                           bool tf32) const {
  Attributes attributes;
  attributes.transpose_a = transpose_a;
  attributes.transpose_b = transpose_b;
  attributes.dtype = to;
  attributes.tf32 = tf32;
  return graph_.add(Op::kGroupedDot, {a, b, offsets}, std::move(attributes));
}

Value Builder::scaled_dot(Value a, Value b, Value a_scales, Value b_scales, DType dtype) const {
  Attributes attributes;
  attributes.dtype = dtype;
  return graph_.add(Op::kScaledDot, {a, b, a_scales, b_scales}, std::move(attributes));
}

}  // namespace causeway::passes
