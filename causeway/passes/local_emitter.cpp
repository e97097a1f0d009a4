#include "causeway/passes/local_emitter.h"

#include <algorithm>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/graph/op.h"
#include "causeway/graph/rewrite.h"
#include "causeway/passes/attention_positions.h"

namespace causeway::passes {
namespace {

bool cuts(const Layout& layout, int dim) {
  return std::any_of(layout.begin(), layout.end(), [&](const Placement& p) { return p.is_cut() && p.dim == dim; });
}

std::vector<int64_t> counting(size_t count) {
  std::vector<int64_t> axes(count);
  for (size_t i = 0; i < count; ++i) axes[i] = static_cast<int64_t>(i);
  return axes;
}

}  // namespace

Value LocalEmitter::collective(Op op, Value x, const std::vector<size_t>& axes) {
  Attributes attributes;
  attributes.group = group_name(mesh_, axes);
  attributes.count = 1;
  for (const size_t axis : axes) attributes.count *= mesh_.axes[axis].size;
  return target_.add(op, {x}, std::move(attributes));
}

Value LocalEmitter::exchange(Op op, Value x, size_t axis) {
  const DType dtype = target_.dtype(x);
  if (dtype == DType::kF32 || dtype == DType::kBF16) return collective(op, x, {axis});
  Attributes bits;
  // bf16 has all their values.
  if (dtype == DType::kBool || dtype == DType::kU8 || dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2)
    return build_.cast(collective(op, build_.cast(x, DType::kBF16), {axis}), dtype);
  if (size_bytes(dtype) != 4 && size_bytes(dtype) != 2)
    throw Error(ErrorKind::kUnsupported,
                fmt::format("values of {} are exchanged between ranks", target_.type(x).text()), target_.scope(),
                "Only types of 2 and 4 bytes can be.");
  bits.dtype = size_bytes(dtype) == 4 ? DType::kF32 : DType::kBF16;
  const Value moved = collective(op, target_.add(Op::kBitcast, {x}, bits), {axis});
  bits.dtype = dtype;
  return target_.add(Op::kBitcast, {moved}, bits);
}

Value LocalEmitter::digit_first(Value x, int dim, const DigitView& view) {
  const auto d = static_cast<size_t>(dim);
  Shape split = target_.shape(x);
  split[d] = Dim(view.outer);
  split.insert(split.begin() + dim + 1, {Dim(view.ranks), Dim(view.inner)});
  std::vector<int64_t> order = counting(split.size());
  order.erase(order.begin() + dim + 1);
  order.insert(order.begin(), dim + 1);
  const Value seen = build_.permute(build_.reshape(x, split), order);
  Shape merged = target_.shape(x);
  merged[d] = Dim(view.outer * view.inner);
  merged.insert(merged.begin(), Dim(view.ranks));
  return build_.reshape(seen, merged);
}

Value LocalEmitter::digit_back(Value x, int dim, const DigitView& view) {
  const auto d = static_cast<size_t>(dim);
  Shape split = target_.shape(x);  // [ranks, ..., outer * inner, ...]
  split[d + 1] = Dim(view.outer);
  split.insert(split.begin() + dim + 2, Dim(view.inner));
  std::vector<int64_t> order = counting(split.size());
  order.erase(order.begin());
  order.insert(order.begin() + dim + 1, 0);
  const Value seen = build_.permute(build_.reshape(x, split), order);
  Shape merged = target_.shape(x);
  merged.erase(merged.begin());
  merged[d] = Dim(view.outer * view.ranks * view.inner);
  return build_.reshape(seen, merged);
}

Value LocalEmitter::coordinate(size_t axis) {
  CAUSEWAY_CHECK(coordinates_.valid(), "a graph that is sharded takes the input '{}'", kMeshCoordinates);
  const auto at = static_cast<int64_t>(axis);
  return build_.reshape(build_.slice_axis(coordinates_, 0, Dim(at), Dim(at + 1)), {});
}

Value LocalEmitter::slice(Value x, int dim, const DigitView& view, size_t axis) {
  Shape split = target_.shape(x);
  split[static_cast<size_t>(dim)] = Dim(view.outer);
  split.insert(split.begin() + dim + 1, {Dim(view.ranks), Dim(view.inner)});
  Shape merged = target_.shape(x);
  merged[static_cast<size_t>(dim)] = Dim(view.outer * view.inner);
  return build_.reshape(build_.gather(build_.reshape(x, split), coordinate(axis), dim + 1), merged);
}

Value LocalEmitter::start(const Shape& shape, const Layout& layout, int dim) {
  Value sum = build_.constant(DType::kI32, {}, 0);
  for (size_t axis = 0; axis < layout.size(); ++axis) {
    if (!layout[axis].is_cut() || layout[axis].dim != dim) continue;
    const int64_t piece = shape[static_cast<size_t>(dim)].constant() / (layout[axis].outer * mesh_.axes[axis].size);
    sum = build_.add(sum, build_.scale(coordinate(axis), static_cast<double>(piece)));
  }
  return sum;
}

Value LocalEmitter::filled(Value value, Value like) {
  return build_.broadcast(build_.cast(value, target_.dtype(like)), target_.shape(like), {});
}

Value LocalEmitter::convert(Value value, const TensorType& type, Layout from, const Layout& to) {
  const Shape& shape = type.shape;
  // A digit that another axis still cuts has to wait.
  const auto fits = [&](size_t axis) {
    Layout next = from;
    next[axis] = to[axis];
    return digits_fit(next, shape, mesh_);
  };
  const auto slice_whole = [&] {
    for (size_t axis = 0; axis < from.size(); ++axis) {
      if (!from[axis].is_whole() || !to[axis].is_cut() || !fits(axis)) continue;
      value = slice(value, to[axis].dim, digit_view(shape, from, mesh_, axis, to[axis]), axis);
      from[axis] = to[axis];
    }
  };
  slice_whole();  // before anything is moved
  std::vector<size_t> summed;
  for (size_t axis = 0; axis < from.size(); ++axis) {
    CAUSEWAY_CHECK(from[axis] == to[axis] || !to[axis].is_term(), "terms cannot be made of {}", type.text());
    if (from[axis] == to[axis] || !from[axis].is_term()) continue;
    if (!to[axis].is_cut() || !fits(axis)) {
      summed.push_back(axis);
      continue;
    }
    const DigitView view = digit_view(shape, from, mesh_, axis, to[axis]);
    value = collective(Op::kReduceScatter, digit_first(value, to[axis].dim, view), {axis});
    from[axis] = to[axis];
  }
  if (!summed.empty()) value = collective(Op::kAllReduce, value, summed);
  for (const size_t axis : summed) from[axis] = Placement();
  for (size_t axis = from.size(); axis-- > 0;) {
    if (from[axis] == to[axis] || !from[axis].is_cut()) continue;
    const Placement old = from[axis];
    const DigitView view = digit_view(shape, from, mesh_, axis, old);
    if (to[axis].is_cut() && to[axis].dim != old.dim && fits(axis)) {
      const DigitView sent = digit_view(shape, from, mesh_, axis, to[axis]);
      value = digit_back(exchange(Op::kAllToAll, digit_first(value, to[axis].dim, sent), axis), old.dim, view);
      from[axis] = to[axis];
    } else {
      value = digit_back(exchange(Op::kAllGather, value, axis), old.dim, view);
      from[axis] = Placement();
    }
  }
  slice_whole();
  CAUSEWAY_CHECK(from == to && target_.shape(value) == part_of(shape, to, mesh_));
  return value;
}

Value LocalEmitter::maximum(Value value, size_t axis) {
  return build_.reduce_max(collective(Op::kAllGather, value, {axis}), {0});
}

Value LocalEmitter::build_gather(const LocalNode& local) {
  const auto dim = static_cast<int>(local.node.attributes.axes[0]);
  const Value x = local.inputs[0];
  Value indices = local.inputs[1];
  if (!cuts(local.input_layouts[0], dim)) return build_.gather(x, indices, dim);
  // An index outside of the whole means its first or last element, one outside of the part none.
  const Dim& size = local.input_shapes[0][static_cast<size_t>(dim)];
  const Value last = build_.constant_like(indices, static_cast<double>(size.constant() - 1));
  indices = target_.add(Op::kMax, {target_.add(Op::kMin, {indices, last}), build_.zeros_like(indices)});
  indices = build_.sub(indices, filled(start(local.input_shapes[0], local.input_layouts[0], dim), indices));
  const Dim& part = target_.shape(x)[static_cast<size_t>(dim)];
  const Value here = target_.add(
      Op::kAnd, {build_.less_equal(build_.zeros_like(indices), indices),
                 build_.less(indices, build_.constant_like(indices, static_cast<double>(part.constant())))});
  const Value found = build_.gather(x, indices, dim);
  std::vector<int64_t> axes;
  for (size_t i = 0; i < target_.shape(indices).size(); ++i) axes.push_back(dim + static_cast<int64_t>(i));
  return build_.select(build_.broadcast(here, target_.shape(found), axes), found, build_.zeros_like(found));
}

Value LocalEmitter::build_scatter_add(const LocalNode& local) {
  const auto dim = static_cast<int>(local.node.attributes.axes[0]);
  Value indices = local.inputs[1];
  if (cuts(local.input_layouts[0], dim))
    indices = build_.sub(indices, filled(start(local.input_shapes[0], local.input_layouts[0], dim), indices));
  return build_.scatter_add(local.inputs[0], indices, local.inputs[2], dim, local.node.attributes.replaces);
}

std::vector<Value> LocalEmitter::build_attention(const LocalNode& local) {
  Node node = local.node;
  const bool map = node.op == Op::kAttentionBlockMap;
  const Layout& layout = map ? local.output_layouts[0] : local.input_layouts[0];
  const Shape whole = map ? node.attributes.shape : local.input_shapes[0];
  if (map) node.attributes.shape = part_of(whole, layout, mesh_);
  // By position among a function's arguments: batch, head, query.
  const int dims[] = {0, map ? 1 : 2, map ? 2 : 1};
  std::vector<Value> inputs = local.inputs;
  const AttentionSpec& spec = *node.attributes.attention;
  std::vector<size_t> offsets;
  for (size_t position = 0; position < 3; ++position) {
    if (!cuts(layout, dims[position]) || !reads_position(spec, position)) continue;
    offsets.push_back(position);
    inputs.push_back(start(whole, layout, dims[position]));
  }
  if (!offsets.empty())
    node.attributes.attention = std::make_shared<AttentionSpec>(with_position_offsets(spec, offsets));
  return copy_node(target_, node, std::move(inputs));
}

std::vector<Value> LocalEmitter::build(const LocalNode& local) {
  const Node& node = local.node;
  switch (node.op) {
    case Op::kGather:
      return {build_gather(local)};
    case Op::kScatterAdd:
      return {build_scatter_add(local)};
    case Op::kAttention:
    case Op::kAttentionGradient:
    case Op::kAttentionBlockMap:
      return build_attention(local);
    default:
      break;
  }
  Node part = node;
  const Layout& layout = local.output_layouts[0];
  switch (node.op) {
    case Op::kConstant:
    case Op::kIota:
    case Op::kReshape:
    case Op::kBroadcast:
      part.attributes.shape = part_of(node.outputs[0].shape, layout, mesh_);
      break;
    case Op::kSlice:
      for (size_t d = 0; d < part.attributes.limit.size(); ++d)
        if (cuts(layout, static_cast<int>(d))) part.attributes.limit[d] = target_.shape(local.inputs[0])[d];
      break;
    default:
      break;
  }
  std::vector<Value> outputs = copy_node(target_, part, local.inputs);
  if (node.op == Op::kIota) {
    const auto dim = static_cast<int>(node.attributes.axes[0]);
    if (cuts(layout, dim))
      outputs[0] = build_.add(outputs[0], filled(start(node.outputs[0].shape, layout, dim), outputs[0]));
  }
  return outputs;
}

}  // namespace causeway::passes
