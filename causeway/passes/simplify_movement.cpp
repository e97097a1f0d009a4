#include "causeway/passes/simplify_movement.h"

#include <algorithm>

#include "causeway/graph/op.h"

namespace causeway::passes {
namespace {

using Result = std::optional<Value>;

Shape without_ones(const Shape& shape) {
  Shape result;
  for (const Dim& dim : shape)
    if (!dim.is_constant(1)) result.push_back(dim);
  return result;
}

bool all_zero(const Shape& dims) {
  return std::all_of(dims.begin(), dims.end(), [](const Dim& dim) { return dim.is_constant(0); });
}

class MovementRules {
 public:
  MovementRules(const Builder& build, const std::vector<Value>& inputs, const Attributes& attributes)
      : build_(build), inputs_(inputs), x_(inputs[0]), inner_(build.graph().node(x_)), attributes_(attributes) {}

  // The source of a chain; a copy of its node, since building appends to the graph.
  Result constant(Op op) const {
    if (inner_.op != Op::kConstant) return std::nullopt;
    std::vector<TensorType> types;
    for (const Value input : inputs_) {
      const Node& node = build_.graph().node(input);
      if (node.op != Op::kConstant || node.attributes.value != inner_.attributes.value) return std::nullopt;
      types.push_back(build_.type(input));
    }
    if (op == Op::kPad && attributes_.value != inner_.attributes.value) return std::nullopt;
    const TensorType result = infer_types(op, types, attributes_)[0];
    return build_.constant(result.dtype, result.shape, inner_.attributes.value);
  }

  Result reshape() const {
    if (build_.shape(x_) == attributes_.shape) return x_;
    if (inner_.op == Op::kReshape) return build_.reshape(inner_.inputs[0], attributes_.shape);
    return std::nullopt;
  }

  Result permute() const {
    const std::vector<int64_t>& axes = attributes_.axes;
    if (std::is_sorted(axes.begin(), axes.end())) return x_;
    const Shape shape = build_.shape(x_);
    std::vector<int64_t> moved;
    Shape result;
    for (const int64_t axis : axes) {
      const Dim& dim = shape[static_cast<size_t>(axis)];
      result.push_back(dim);
      if (!dim.is_constant(1)) moved.push_back(axis);
    }
    if (std::is_sorted(moved.begin(), moved.end())) return build_.reshape(x_, result);
    if (inner_.op == Op::kPermute) {
      std::vector<int64_t> combined;
      for (const int64_t axis : axes) combined.push_back(inner_.attributes.axes[static_cast<size_t>(axis)]);
      return build_.permute(inner_.inputs[0], combined);
    }
    return std::nullopt;
  }

  Result broadcast() const {
    const Shape& to = attributes_.shape;
    const Shape from = build_.shape(x_);
    if (from == to) return x_;
    if (without_ones(from) == without_ones(to)) return build_.reshape(x_, to);
    if (inner_.op == Op::kBroadcast) {
      std::vector<int64_t> axes;
      for (const int64_t axis : inner_.attributes.axes) axes.push_back(attributes_.axes[static_cast<size_t>(axis)]);
      return build_.broadcast(inner_.inputs[0], to, axes);
    }
    if (inner_.op == Op::kReshape) {
      // A reshape that only adds dimensions of 1 is part of the broadcast.
      const Value source = inner_.inputs[0];
      const Shape& shape = build_.shape(source);
      if (shape.size() < from.size() && without_ones(shape) == shape && without_ones(from) == shape) {
        std::vector<int64_t> axes;
        for (size_t d = 0; d < from.size(); ++d)
          if (!from[d].is_constant(1)) axes.push_back(attributes_.axes[d]);
        return build_.broadcast(source, to, axes);
      }
    }
    return std::nullopt;
  }

  Result slice() const {
    const Shape from = build_.shape(x_);
    const bool dense =
        std::all_of(attributes_.strides.begin(), attributes_.strides.end(), [](int64_t stride) { return stride == 1; });
    if (!dense) return std::nullopt;
    if (all_zero(attributes_.start) && attributes_.limit == from) return x_;
    if (inner_.op == Op::kSlice) {
      const Attributes& first = inner_.attributes;
      if (std::any_of(first.strides.begin(), first.strides.end(), [](int64_t stride) { return stride != 1; }))
        return std::nullopt;
      Shape start = first.start, limit = first.start;
      for (size_t d = 0; d < start.size(); ++d) {
        start[d] += attributes_.start[d];
        limit[d] += attributes_.limit[d];
      }
      return build_.slice(inner_.inputs[0], start, limit);
    }
    if (inner_.op == Op::kPad) {
      Shape limit = build_.shape(inner_.inputs[0]);
      for (size_t d = 0; d < limit.size(); ++d) limit[d] += inner_.attributes.start[d];
      if (attributes_.start == inner_.attributes.start && attributes_.limit == limit) return inner_.inputs[0];
    }
    if (inner_.op == Op::kConcat) {
      const auto along = static_cast<size_t>(inner_.attributes.axes[0]);
      Dim start(0);
      for (const Value part : inner_.inputs) {
        Shape starts(from.size(), Dim(0)), limits = from;
        starts[along] = start;
        limits[along] = start + build_.shape(part)[along];
        if (attributes_.start == starts && attributes_.limit == limits) return part;
        start = limits[along];
      }
    }
    return std::nullopt;
  }

  Result pad() const {
    if (all_zero(attributes_.start) && all_zero(attributes_.limit)) return x_;
    return std::nullopt;
  }

  Result concat() const {
    const auto along = static_cast<size_t>(attributes_.axes[0]);
    std::vector<Value> parts;
    for (const Value input : inputs_)
      if (!build_.shape(input)[along].is_constant(0)) parts.push_back(input);
    if (parts.empty()) return x_;
    if (parts.size() == inputs_.size() && parts.size() > 1) return std::nullopt;
    return build_.concat(parts, attributes_.axes[0]);
  }

 private:
  const Builder& build_;
  const std::vector<Value>& inputs_;
  const Value x_;
  const Node inner_;
  const Attributes& attributes_;
};

// The value before a permute that only exchanges the last two axes.
Result untransposed(const Builder& build, Value x) {
  const Node& node = build.graph().node(x);
  if (node.op != Op::kPermute) return std::nullopt;
  std::vector<int64_t> axes = node.attributes.axes;
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  if (!std::is_sorted(axes.begin(), axes.end())) return std::nullopt;
  return node.inputs[0];
}

}  // namespace

Result simplify_movement(const Builder& build, Op op, const std::vector<Value>& inputs, const Attributes& attributes) {
  if (op == Op::kConstrainSharding) return std::nullopt;
  const MovementRules rules(build, inputs, attributes);
  if (const Result constant = rules.constant(op)) return constant;
  switch (op) {
    case Op::kReshape:
      return rules.reshape();
    case Op::kPermute:
      return rules.permute();
    case Op::kBroadcast:
      return rules.broadcast();
    case Op::kSlice:
      return rules.slice();
    case Op::kPad:
      return rules.pad();
    default:
      return rules.concat();
  }
}

Result simplify_dot(const Builder& build, const std::vector<Value>& inputs, const Attributes& attributes) {
  Value a = inputs[0], b = inputs[1];
  bool transpose_a = attributes.transpose_a, transpose_b = attributes.transpose_b;
  bool changed = false;
  // `across`: the flag's value when x does not lie along what is summed over. Matrix instructions want operands of 8
  // bits and of tf32 to, so that a permutation that makes them do stays.
  const auto absorb = [&](Value& x, bool& flag, bool across) {
    while (const Result source = untransposed(build, x)) {
      if ((size_bytes(build.dtype(x)) == 1 || attributes.tf32) && flag != across) return;
      x = *source;
      flag = !flag;
      changed = true;
    }
  };
  absorb(a, transpose_a, true);
  absorb(b, transpose_b, false);

  const Shape from_a = build.shape(a), from_b = build.shape(b);
  const auto batch_end = from_a.end() - 2;
  if (from_a.size() > 2 && std::all_of(from_a.begin(), batch_end, [](const Dim& d) { return d.is_constant(1); })) {
    const Value gemm = build.dot(build.reshape(a, Shape(batch_end, from_a.end())),
                                 build.reshape(b, Shape(from_b.end() - 2, from_b.end())), transpose_a, transpose_b,
                                 attributes.dtype, attributes.tf32);
    Shape result(from_a.begin(), batch_end);
    for (const Dim& dim : Shape(build.shape(gemm))) result.push_back(dim);
    return build.reshape(gemm, std::move(result));
  }
  if (!changed) return std::nullopt;
  return build.dot(a, b, transpose_a, transpose_b, attributes.dtype, attributes.tf32);
}

}  // namespace causeway::passes
