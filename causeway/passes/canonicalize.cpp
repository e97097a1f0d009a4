#include "causeway/passes/canonicalize.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "causeway/graph/op.h"
#include "causeway/graph/rewrite.h"
#include "causeway/passes/constant_folding.h"
#include "causeway/passes/simplify_movement.h"

namespace causeway::passes {
namespace {

bool is_commutative(Op op) {
  switch (op) {
    case Op::kAdd:
    case Op::kMul:
    case Op::kMax:
    case Op::kMin:
    case Op::kAnd:
    case Op::kOr:
    case Op::kXor:
    case Op::kEq:
      return true;
    default:
      return false;
  }
}

// Every value of `from` is a value of `to`.
bool holds_exactly(DType from, DType to) {
  if (from == to) return true;
  switch (from) {
    case DType::kBool:
      return true;
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      return to == DType::kBF16 || to == DType::kF16 || to == DType::kF32;
    case DType::kF16:
    case DType::kBF16:
      return to == DType::kF32;
    case DType::kU8:
      return to == DType::kI32 || to == DType::kI64 || to == DType::kF32 || to == DType::kF16 || to == DType::kBF16;
    case DType::kI16:
      return to == DType::kI32 || to == DType::kI64 || to == DType::kF32;
    case DType::kI32:
      return to == DType::kI64;
    default:
      return false;
  }
}

class Simplifier {
 public:
  Simplifier(Graph& graph, bool keeps_sums) : graph_(graph), build_(graph), keeps_sums_(keeps_sums) {}

  // What `op` gives as its first output, in its simplest form.
  Value make(Op op, std::vector<Value> inputs, Attributes attributes) {
    if (is_commutative(op) && splat(inputs[0]) && !splat(inputs[1])) std::swap(inputs[0], inputs[1]);
    if (is_elementwise(op)) {
      if (const std::optional<Value> folded = fold(op, inputs, attributes)) return *folded;
    }
    std::optional<Value> simpler;
    switch (op_info(op).kind) {
      case OpKind::kUnary:
        simpler = unary(op, inputs[0]);
        break;
      case OpKind::kConvert:
        simpler = convert(op, inputs[0], attributes);
        break;
      case OpKind::kBinary:
        simpler = binary(op, inputs[0], inputs[1]);
        break;
      case OpKind::kCompare:
        simpler = compare(op, inputs[0], inputs[1]);
        break;
      case OpKind::kSelect:
        simpler = select(inputs);
        break;
      case OpKind::kTernary:
        simpler = fma(inputs);
        break;
      case OpKind::kReduce:
        simpler = reduce(op, inputs[0], attributes);
        break;
      case OpKind::kMovement:
        simpler = simplify_movement(build_, op, inputs, attributes);
        break;
      case OpKind::kTemplate:
        if (op == Op::kDot) simpler = simplify_dot(build_, inputs, attributes);
        break;
      case OpKind::kCollective:
        break;
      case OpKind::kSource:
        if (op == Op::kIota && attributes.shape[static_cast<size_t>(attributes.axes[0])].is_constant(1))
          simpler = build_.constant(attributes.dtype, attributes.shape, 0);
        break;
      case OpKind::kIndexing:
        if (op == Op::kGather) simpler = gather(inputs, attributes);
        break;
      default:
        break;
    }
    return simpler.has_value() ? *simpler : graph_.add(op, std::move(inputs), std::move(attributes));
  }

 private:
  using Result = std::optional<Value>;

  const Node& node(Value value) const { return graph_.node(value); }
  bool is(Value value, Op op) const { return node(value).op == op; }
  bool integers(Value value) const { return is_integer(graph_.dtype(value)); }

  // The value of a constant.
  std::optional<double> splat(Value value) const {
    if (!is(value, Op::kConstant)) return std::nullopt;
    return node(value).attributes.value;
  }
  bool is_splat(Value value, double expected) const { return splat(value) == expected; }

  Result fold(Op op, const std::vector<Value>& inputs, const Attributes& attributes) const {
    ElementwiseInputs values{};
    std::vector<TensorType> types;
    for (const Value input : inputs) {
      if (!splat(input)) return std::nullopt;
      values[types.size()] = *splat(input);
      types.push_back(graph_.type(input));
    }
    const TensorType result = infer_types(op, types, attributes)[0];
    const std::optional<double> value = fold_elementwise(op, values, types.back().dtype, result.dtype);
    if (!value) return std::nullopt;
    return build_.constant(result.dtype, result.shape, *value);
  }

  Result unary(Op op, Value x) {
    const Node inner = node(x);
    if (op == Op::kNeg && inner.op == Op::kNeg) return inner.inputs[0];
    if (op == Op::kNeg && inner.op == Op::kSub && is_float(inner.outputs[0].dtype))
      return make(Op::kSub, {inner.inputs[1], inner.inputs[0]}, {});
    if (op == Op::kAbs && inner.op == Op::kAbs) return x;
    if (op == Op::kAbs && inner.op == Op::kNeg) return make(Op::kAbs, {inner.inputs[0]}, {});
    if (op == Op::kRecip && inner.op == Op::kSqrt) return make(Op::kRsqrt, {inner.inputs[0]}, {});
    if (op == Op::kFloor && inner.op == Op::kFloor) return x;
    return std::nullopt;
  }

  Result convert(Op op, Value x, const Attributes& attributes) {
    if (graph_.dtype(x) == attributes.dtype) return x;
    const Node inner = node(x);
    if (op == Op::kBitcast) {
      if (inner.op == Op::kBitcast) return make(Op::kBitcast, {inner.inputs[0]}, attributes);
      return std::nullopt;
    }
    if (inner.op == Op::kCast && holds_exactly(graph_.dtype(inner.inputs[0]), inner.attributes.dtype))
      return make(Op::kCast, {inner.inputs[0]}, attributes);
    return std::nullopt;
  }

  // a + scatter_add(0, ...): the gradient of a tied embedding on top of the output layer's.
  Result scatter_into(Value a, Value b) {
    if (keeps_sums_ || !is(b, Op::kScatterAdd) || !is_splat(node(b).inputs[0], 0)) return std::nullopt;
    Node scatter = node(b);
    scatter.attributes.replaces = false;
    return graph_.add(Op::kScatterAdd, {a, scatter.inputs[1], scatter.inputs[2]}, scatter.attributes);
  }

  Result binary(Op op, Value a, Value b) {
    switch (op) {
      case Op::kAdd:
        if (is_splat(b, 0)) return a;
        if (is(b, Op::kNeg)) return make(Op::kSub, {a, node(b).inputs[0]}, {});
        if (is(a, Op::kNeg)) return make(Op::kSub, {b, node(a).inputs[0]}, {});
        if (const Result sum = scatter_into(a, b)) return sum;
        if (const Result sum = scatter_into(b, a)) return sum;
        break;
      case Op::kSub:
        if (is_splat(b, 0)) return a;
        if (is_splat(a, 0)) return make(Op::kNeg, {b}, {});
        if (a == b && integers(a)) return build_.zeros_like(a);
        if (is(b, Op::kNeg)) return make(Op::kAdd, {a, node(b).inputs[0]}, {});
        break;
      case Op::kMul:
        if (is_splat(b, 1)) return a;
        if (is_splat(b, 0) && integers(a)) return b;
        if (is_splat(b, -1)) return make(Op::kNeg, {a}, {});
        if (is(a, Op::kNeg) && is(b, Op::kNeg)) return make(Op::kMul, {node(a).inputs[0], node(b).inputs[0]}, {});
        break;
      case Op::kDiv:
        if (is_splat(b, 1)) return a;
        if (is_float(graph_.dtype(a))) {
          if (is_splat(a, 1)) return make(Op::kRecip, {b}, {});
          if (splat(b)) {
            int exponent = 0;
            // Both the power of two and its reciprocal must be normal numbers of the type.
            const int limit = graph_.dtype(a) == DType::kF32 || graph_.dtype(a) == DType::kBF16 ? 120 : 5;
            if (std::fabs(std::frexp(*splat(b), &exponent)) == 0.5 && std::abs(exponent) < limit)
              return make(Op::kMul, {a, build_.constant_like(b, 1 / *splat(b))}, {});
          }
        }
        break;
      case Op::kMax:
      case Op::kMin:
        if (a == b) return a;
        break;
      case Op::kPow:
        if (is_splat(b, 1)) return a;
        if (is_splat(b, 2)) return make(Op::kMul, {a, a}, {});
        if (is_splat(b, -1)) return make(Op::kRecip, {a}, {});
        break;
      case Op::kAnd:
      case Op::kOr:
        if (a == b) return a;
        if (is_splat(b, 0)) return op == Op::kAnd ? b : a;
        if (is_splat(b, 1) && graph_.dtype(b) == DType::kBool) return op == Op::kAnd ? a : b;
        break;
      case Op::kXor:
      case Op::kShl:
      case Op::kShr:
        if (is_splat(b, 0)) return a;
        break;
      default:
        break;
    }
    return std::nullopt;
  }

  Result compare(Op op, Value a, Value b) {
    if (a != b || is_float(graph_.dtype(a))) return std::nullopt;
    return build_.constant(DType::kBool, graph_.shape(a), op == Op::kLt ? 0 : 1);
  }

  Result select(const std::vector<Value>& inputs) const {
    if (inputs[1] == inputs[2]) return inputs[1];
    const std::optional<double> condition = splat(inputs[0]);
    if (condition) return *condition != 0 ? inputs[1] : inputs[2];
    if (splat(inputs[1]) && splat(inputs[1]) == splat(inputs[2])) return inputs[1];
    return std::nullopt;
  }

  Result fma(const std::vector<Value>& inputs) {
    if (is_splat(inputs[2], 0)) return make(Op::kMul, {inputs[0], inputs[1]}, {});
    if (is_splat(inputs[1], 1)) return make(Op::kAdd, {inputs[0], inputs[2]}, {});
    if (is_splat(inputs[0], 1)) return make(Op::kAdd, {inputs[1], inputs[2]}, {});
    return std::nullopt;
  }

  Result reduce(Op op, Value x, const Attributes& attributes) {
    const Shape shape = graph_.shape(x);
    Shape remaining;
    Dim count(1);
    for (size_t d = 0; d < shape.size(); ++d) {
      const bool reduced = std::binary_search(attributes.axes.begin(), attributes.axes.end(), static_cast<int64_t>(d));
      if (reduced) {
        count *= shape[d];
      } else {
        remaining.push_back(shape[d]);
      }
    }
    if (count.is_constant(1)) return make_reshape(x, remaining);
    if (const std::optional<double> value = splat(x); value && count.is_constant() && count.constant() > 0) {
      const DType dtype = graph_.dtype(x);
      const auto times = static_cast<double>(count.constant());
      if (op == Op::kReduceMax) return build_.constant(dtype, remaining, *value);
      const std::optional<double> sum = is_float(dtype) ? round_to_dtype(dtype, round_to_dtype(dtype, *value) * times)
                                                        : fold_elementwise(Op::kMul, {*value, times, 0}, dtype, dtype);
      if (sum) return build_.constant(dtype, remaining, *sum);
    }
    const Node inner = node(x);
    if (inner.op == op && !(keeps_sums_ && op == Op::kReduceSum)) {
      // The axes of the outer reduction, as axes of the inner one's input.
      std::vector<int64_t> kept, axes = inner.attributes.axes;
      for (int64_t d = 0; d < static_cast<int64_t>(graph_.shape(inner.inputs[0]).size()); ++d)
        if (!std::binary_search(inner.attributes.axes.begin(), inner.attributes.axes.end(), d)) kept.push_back(d);
      for (const int64_t axis : attributes.axes) axes.push_back(kept[static_cast<size_t>(axis)]);
      std::sort(axes.begin(), axes.end());
      Attributes merged = attributes;
      merged.axes = std::move(axes);
      return make(op, {inner.inputs[0]}, std::move(merged));
    }
    return std::nullopt;
  }

  Result gather(const std::vector<Value>& inputs, const Attributes& attributes) {
    const Node source = node(inputs[0]);
    if (source.op == Op::kCast && is_float(graph_.dtype(source.inputs[0])) &&
        size_bytes(graph_.dtype(source.inputs[0])) < size_bytes(source.attributes.dtype) &&
        holds_exactly(graph_.dtype(source.inputs[0]), source.attributes.dtype))
      return make(Op::kCast, {make(Op::kGather, {source.inputs[0], inputs[1]}, attributes)}, source.attributes);
    if (!splat(inputs[0])) return std::nullopt;
    const TensorType result = infer_types(Op::kGather, {graph_.type(inputs[0]), graph_.type(inputs[1])}, attributes)[0];
    return build_.constant(result.dtype, result.shape, *splat(inputs[0]));
  }

  Value make_reshape(Value x, Shape shape) {
    Attributes attributes;
    attributes.shape = std::move(shape);
    return make(Op::kReshape, {x}, std::move(attributes));
  }

  Graph& graph_;
  Builder build_;
  bool keeps_sums_;
};

// Sets `changed` where a node was not merely copied.
Graph simplify_once(const Graph& graph, bool keeps_sums, bool& changed) {
  changed = false;
  return rebuild_graph(graph, [&](Graph& target, const Node& node, const std::vector<Value>& inputs) {
    const size_t nodes = target.nodes().size();
    const Value first = Simplifier(target, keeps_sums).make(node.op, inputs, node.attributes);
    changed = changed || target.nodes().size() != nodes + 1 || target.node(first).op != node.op ||
              target.node(first).inputs != inputs || !(target.node(first).attributes == node.attributes);
    std::vector<Value> outputs = {first};
    for (int32_t i = 1; i < static_cast<int32_t>(node.outputs.size()); ++i) outputs.push_back({first.node, i});
    return outputs;
  });
}

}  // namespace

Graph canonicalize(const Graph& graph, bool keeps_sums) {
  // A rewrite sees simplified inputs, so the second round usually only drops what the first left unused; the bound
  // guards against rules that undo each other.
  constexpr int kMaxRounds = 6;
  bool changed = false;
  Graph current = simplify_once(graph, keeps_sums, changed);
  for (int round = 1; changed && round < kMaxRounds; ++round) {
    Graph next = simplify_once(current, keeps_sums, changed);
    if (structurally_equal(current, next)) break;
    current = std::move(next);
  }
  return current;
}

}  // namespace causeway::passes
