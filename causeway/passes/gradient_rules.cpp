#include "causeway/passes/gradient_rules.h"

#include <algorithm>
#include <numbers>

#include "causeway/base/error.h"
#include "causeway/graph/op.h"
#include "causeway/graph/user_kernel.h"
#include "causeway/passes/attention_gradient_rule.h"

namespace causeway::passes {
namespace {

using Request = GradientRequest;
using Values = std::vector<Value>;

constexpr double kLn2 = std::numbers::ln2;

Value upstream(const Request& r) { return r.output_gradients[0]; }

// Elementwise ops of one input.

Values neg_rule(const Request& r) { return {r.build.neg(upstream(r))}; }

Values abs_rule(const Request& r) {
  const Value g = upstream(r), x = r.input(0), zero = r.build.zeros_like(x);
  return {r.build.select(r.build.less(x, zero), r.build.neg(g), r.build.select(r.build.less(zero, x), g, zero))};
}

Values exp2_rule(const Request& r) { return {r.build.mul(upstream(r), r.build.scale(r.values[0], kLn2))}; }

Values log2_rule(const Request& r) {
  return {r.build.mul(upstream(r), r.build.recip(r.build.scale(r.input(0), kLn2)))};
}

Values sin_rule(const Request& r) { return {r.build.mul(upstream(r), r.graph.add(Op::kCos, {r.input(0)}))}; }

Values cos_rule(const Request& r) {
  return {r.build.neg(r.build.mul(upstream(r), r.graph.add(Op::kSin, {r.input(0)})))};
}

Values sqrt_rule(const Request& r) { return {r.build.mul(upstream(r), r.build.recip(r.build.scale(r.values[0], 2)))}; }

Values rsqrt_rule(const Request& r) {
  const Value y = r.values[0];
  return {r.build.mul(upstream(r), r.build.scale(r.build.mul(y, r.build.mul(y, y)), -0.5))};
}

Values recip_rule(const Request& r) {
  const Value y = r.values[0];
  return {r.build.neg(r.build.mul(upstream(r), r.build.mul(y, y)))};
}

Values tanh_rule(const Request& r) {
  const Value y = r.values[0];
  return {r.build.mul(upstream(r), r.build.sub(r.build.constant_like(y, 1), r.build.mul(y, y)))};
}

Values erf_rule(const Request& r) {
  const Value x = r.input(0);
  const Value bell = r.build.exp2(r.build.scale(r.build.mul(x, x), -std::numbers::log2e));
  return {r.build.mul(upstream(r), r.build.scale(bell, 2 * std::numbers::inv_sqrtpi))};
}

Values cast_rule(const Request& r) { return {r.build.cast(upstream(r), r.build.dtype(r.input(0)))}; }

// Elementwise ops of two and three inputs.

Values add_rule(const Request& r) { return {upstream(r), upstream(r)}; }

Values sub_rule(const Request& r) { return {upstream(r), r.needed[1] ? r.build.neg(upstream(r)) : Value{}}; }

Values mul_rule(const Request& r) {
  const Value g = upstream(r);
  return {r.needed[0] ? r.build.mul(g, r.input(1)) : Value{}, r.needed[1] ? r.build.mul(g, r.input(0)) : Value{}};
}

Values div_rule(const Request& r) {
  const Value over_b = r.build.div(upstream(r), r.input(1));
  return {over_b, r.needed[1] ? r.build.neg(r.build.mul(over_b, r.values[0])) : Value{}};
}

Values rem_rule(const Request& r) {
  const Value g = upstream(r);
  if (!r.needed[1]) return {g, {}};
  const Value quotient = r.build.div(r.build.sub(r.input(0), r.values[0]), r.input(1));
  return {g, r.build.neg(r.build.mul(g, quotient))};
}

Values choose(const Request& r, Value first_wins) {
  const Value g = upstream(r), zero = r.build.zeros_like(g);
  return {r.needed[0] ? r.build.select(first_wins, g, zero) : Value{},
          r.needed[1] ? r.build.select(first_wins, zero, g) : Value{}};
}

Values max_rule(const Request& r) { return choose(r, r.build.less_equal(r.input(1), r.input(0))); }

Values min_rule(const Request& r) { return choose(r, r.build.less_equal(r.input(0), r.input(1))); }

Values pow_rule(const Request& r) {
  const Value g = upstream(r), a = r.input(0), b = r.input(1), zero = r.build.zeros_like(a);
  Values result(2);
  if (r.needed[0]) {
    const Value slope = r.build.mul(b, r.graph.add(Op::kPow, {a, r.build.sub(b, r.build.constant_like(b, 1))}));
    result[0] = r.build.mul(g, r.build.select(r.build.equal(b, zero), zero, slope));
  }
  if (r.needed[1]) {
    const Value slope = r.build.mul(r.values[0], r.build.scale(r.build.log2(a), kLn2));
    result[1] = r.build.mul(g, r.build.select(r.build.less(zero, a), slope, zero));
  }
  return result;
}

Values select_rule(const Request& r) {
  const Value g = upstream(r), condition = r.input(0), zero = r.build.zeros_like(g);
  return {{},
          r.needed[1] ? r.build.select(condition, g, zero) : Value{},
          r.needed[2] ? r.build.select(condition, zero, g) : Value{}};
}

Values fma_rule(const Request& r) {
  const Value g = upstream(r);
  return {r.needed[0] ? r.build.mul(g, r.input(1)) : Value{}, r.needed[1] ? r.build.mul(g, r.input(0)) : Value{}, g};
}

// Reductions and scans.

Values reduce_sum_rule(const Request& r) {
  return {r.build.broadcast_over(upstream(r), r.input_shape(0), r.node.attributes.axes)};
}

Values reduce_max_rule(const Request& r) {
  const std::vector<int64_t>& axes = r.node.attributes.axes;
  const Value x = r.input(0);
  const Shape shape = r.input_shape(0);
  const Value attained = r.build.equal(x, r.build.broadcast_over(r.values[0], shape, axes));
  const Value ties = r.build.reduce_sum(r.build.cast(attained, r.build.dtype(x)), axes);
  const Value share = r.build.broadcast_over(r.build.div(upstream(r), ties), shape, axes);
  return {r.build.select(attained, share, r.build.zeros_like(x))};
}

Values cumsum_rule(const Request& r) {
  const Value g = upstream(r);
  const std::vector<int64_t>& axes = r.node.attributes.axes;
  const Value before = r.build.sub(r.graph.add(Op::kCumsum, {g}, r.node.attributes), g);
  const Value total = r.build.broadcast_over(r.build.reduce_sum(g, axes), r.input_shape(0), axes);
  return {r.build.sub(total, before)};
}

// Movement.

Values reshape_rule(const Request& r) { return {r.build.reshape(upstream(r), r.input_shape(0))}; }

// The gradient of what lies in one way lies in the same.
Values constrain_sharding_rule(const Request& r) {
  return {r.build.graph().add(Op::kConstrainSharding, {upstream(r)}, r.node.attributes)};
}

Values permute_rule(const Request& r) {
  const std::vector<int64_t>& axes = r.node.attributes.axes;
  std::vector<int64_t> inverse(axes.size());
  for (size_t i = 0; i < axes.size(); ++i) inverse[static_cast<size_t>(axes[i])] = static_cast<int64_t>(i);
  return {r.build.permute(upstream(r), std::move(inverse))};
}

Values broadcast_rule(const Request& r) {
  const std::vector<int64_t>& axes = r.node.attributes.axes;
  const Shape in = r.input_shape(0);
  const Shape& out = r.node.attributes.shape;
  std::vector<int64_t> repeated;
  size_t next = 0;
  for (size_t d = 0; d < out.size(); ++d) {
    const bool mapped = next < axes.size() && static_cast<size_t>(axes[next]) == d;
    if (!mapped || in[next] != out[d]) repeated.push_back(static_cast<int64_t>(d));
    if (mapped) ++next;
  }
  return {r.build.reshape(r.build.reduce_sum(upstream(r), std::move(repeated)), in)};
}

Values slice_rule(const Request& r) {
  const Attributes& attributes = r.node.attributes;
  const Shape in = r.input_shape(0);
  Value g = upstream(r);
  Shape after(in.size());
  for (size_t d = 0; d < in.size(); ++d) {
    after[d] = in[d] - attributes.limit[d];
    const int64_t stride = attributes.strides[d];
    if (stride == 1) continue;
    // Spread the elements `stride` apart: a new axis of that size, of which only index 0 is not zero.
    const Shape shape = r.build.shape(g);
    Shape split = shape, none(shape.size() + 1, Dim(0)), gap = none, merged = shape;
    split.insert(split.begin() + static_cast<ptrdiff_t>(d) + 1, Dim(1));
    gap[d + 1] = stride - 1;
    merged[d] = shape[d] * Dim(stride);
    g = r.build.reshape(r.build.pad(r.build.reshape(g, split), none, gap, 0), merged);
    g = r.build.slice_axis(g, static_cast<int64_t>(d), 0, attributes.limit[d] - attributes.start[d]);
  }
  return {r.build.pad(g, attributes.start, std::move(after), 0)};
}

Values pad_rule(const Request& r) {
  const Shape& start = r.node.attributes.start;
  Shape limit = r.input_shape(0);
  for (size_t d = 0; d < limit.size(); ++d) limit[d] += start[d];
  return {r.build.slice(upstream(r), start, std::move(limit))};
}

Values concat_rule(const Request& r) {
  const int64_t axis = r.node.attributes.axes[0];
  Values result;
  Dim start(0);
  for (size_t i = 0; i < r.node.inputs.size(); ++i) {
    const Dim limit = start + r.input_shape(i)[static_cast<size_t>(axis)];
    result.push_back(r.needed[i] ? r.build.slice_axis(upstream(r), axis, start, limit) : Value{});
    start = limit;
  }
  return result;
}

// Indexing.

Values gather_rule(const Request& r) {
  if (r.node.attributes.permutes) {
    const Value g = r.build.reshape(upstream(r), r.input_shape(0));
    return {r.build.permute_rows(g, r.build.permutation_back(r.input(1))), {}};
  }
  const Value zeros = r.build.zeros_like(r.input(0));
  return {r.build.scatter_add(zeros, r.input(1), upstream(r), r.node.attributes.axes[0]), {}};
}

Values scatter_add_rule(const Request& r) {
  const Value g = upstream(r);
  const Value of_base =
      r.node.attributes.replaces && r.needed[0]
          ? r.build.scatter_add(g, r.input(1), r.build.zeros_like(r.input(2)), r.node.attributes.axes[0], true)
          : g;
  if (!r.needed[2]) return {of_base, {}, {}};
  // An index outside was ignored, but gather would read the nearest element: let it read a zero instead.
  const int64_t axis = r.node.attributes.axes[0];
  Shape rim(r.input_shape(0).size(), Dim(0));
  rim[static_cast<size_t>(axis)] = 1;
  const Value shifted = r.build.add(r.input(1), r.build.constant_like(r.input(1), 1));
  return {of_base, {}, r.build.gather(r.build.pad(g, rim, rim, 0), shifted, axis)};
}

Values topk_rule(const Request& r) {
  // As a sum over the count of one-hot rows: [..., count, n] is never stored once fused, and needs no scatter.
  const Shape in = r.input_shape(0);
  const auto rank = static_cast<int64_t>(in.size());
  Shape expanded = in;
  expanded.insert(expanded.end() - 1, Dim(r.node.attributes.count));
  const Value chosen = r.build.broadcast_over(r.values[1], expanded, {rank});
  const Value hit = r.build.equal(chosen, r.build.iota(DType::kI32, expanded, rank));
  const Value g = r.build.broadcast_over(upstream(r), expanded, {rank});
  return {r.build.reduce_sum(r.build.select(hit, g, r.build.zeros_like(g)), {rank - 1})};
}

// Templates.

Values dot_rule(const Request& r) {
  const Value a = r.input(0), b = r.input(1);
  const bool ta = r.node.attributes.transpose_a, tb = r.node.attributes.transpose_b;
  const DType dtype = r.build.dtype(a);
  const Value g = r.build.cast(upstream(r), dtype);
  const auto dot = [&](Value x, Value y, bool transpose_x, bool transpose_y) {
    return r.build.dot(x, y, transpose_x, transpose_y, dtype, r.node.attributes.tf32);
  };
  Values result(2);
  if (r.needed[0]) result[0] = ta ? dot(b, g, tb, true) : dot(g, b, false, !tb);
  if (r.needed[1]) result[1] = tb ? dot(g, a, true, ta) : dot(a, g, !ta, false);
  return result;
}

// The gradient of a product of rows is one for the rows and a sum over them for the matrices, and the other way round.
Values grouped_dot_rule(const Request& r) {
  const Value a = r.input(0), b = r.input(1);
  const bool sums_rows = r.node.attributes.transpose_a, tb = r.node.attributes.transpose_b;
  const DType dtype = r.build.dtype(a);
  const Value g = r.build.cast(upstream(r), dtype);
  const auto rows = [&](Value x, Value matrices, bool transpose) {
    return r.build.grouped_dot(x, matrices, r.input(2), false, transpose, dtype, r.node.attributes.tf32);
  };
  const auto sum = [&](Value x, Value y) {
    return r.build.grouped_dot(x, y, r.input(2), true, false, dtype, r.node.attributes.tf32);
  };
  Values result(3);
  if (r.needed[0]) result[0] = sums_rows ? rows(b, g, true) : rows(g, b, !tb);
  if (r.needed[1]) result[1] = sums_rows ? rows(a, g, false) : tb ? sum(g, a) : sum(a, g);
  return result;
}

[[noreturn]] void unsupported(const Request& r, const std::string& what, const std::string& hint) {
  throw Error(ErrorKind::kUnsupported, what, r.node.scope, hint);
}

Values scaled_dot_rule(const Request& r) {
  unsupported(r, "scaled_dot has no gradient", "differentiate the dot that it stands for");
}

Values linear_cross_entropy_rule(const Request& r) {
  if (r.output_gradients[1].valid() || r.output_gradients[2].valid())
    unsupported(r, "second derivatives of linear_cross_entropy are not defined",
                "compose the loss from dot and log_softmax where second derivatives are needed");
  if (r.needed[3])
    unsupported(r, "linear_cross_entropy has no gradient for its token weights",
                "make the token weights from inputs that are not differentiated");
  Values result(4);
  // `unit`: the gradient of the sum of the terms. Computed as f32 and handed on in the input's type.
  const auto add = [&](size_t input, Value unit, Value factor) {
    if (!r.needed[input]) return;
    Value gradient = r.build.cast(unit, DType::kF32);
    if (factor.valid()) gradient = r.build.mul(gradient, r.build.broadcast(factor, r.build.shape(gradient), {}));
    gradient = r.build.cast(gradient, r.build.dtype(r.input(input)));
    result[input] = result[input].valid() ? r.build.add(result[input], gradient) : gradient;
  };
  const auto add_both = [&](int32_t node, Value factor) {
    add(0, {node, 1}, factor);
    add(1, {node, 2}, factor);
  };
  Attributes plain = r.node.attributes;
  plain.z_loss = 0;
  const bool has_z_loss = r.node.attributes.z_loss > 0;
  const Value of_loss = r.output_gradients[0], of_z = has_z_loss ? r.output_gradients[4] : of_loss;
  if (of_loss == of_z) {
    if (of_loss.valid()) add_both(r.values[0].node, of_loss);
  } else {
    // Not of their sum: what the node computes times the z-loss's gradient, and of the loss alone, by logits that are
    // computed again, the rest.
    const Value alone = r.graph.add(Op::kLinearCrossEntropy, r.node.inputs, plain);
    if (of_z.valid()) add_both(r.values[0].node, of_z);
    add_both(alone.node, !of_z.valid() ? of_loss : of_loss.valid() ? r.build.sub(of_loss, of_z) : r.build.neg(of_z));
  }
  // Of terms, each with a gradient of its own: the loss whose weights are those. The logits are computed again.
  if (const Value g = r.output_gradients[3]; g.valid()) {
    const Value again =
        r.graph.add(Op::kLinearCrossEntropy, {r.input(0), r.input(1), r.input(2), r.build.mul(r.input(3), g)}, plain);
    add_both(again.node, {});
  }
  return result;
}

Values user_kernel_rule(const Request& r) {
  const UserKernelSpec& spec = *r.node.attributes.user_kernel;
  if (spec.gradient == nullptr)
    unsupported(r, fmt::format("the kernel '{}' was given without a gradient", spec.name),
                "set UserKernel::gradient, or use stop_gradient() on its result");
  Values results = spec.gradient(r.graph, r.node, r.values, r.output_gradients);
  if (results.size() != r.node.inputs.size())
    unsupported(r,
                fmt::format("the gradient of the kernel '{}' gave {} tensors for {} inputs", spec.name, results.size(),
                            r.node.inputs.size()),
                "return one tensor for each input, an undefined one where no gradient flows");
  return results;
}

Values collective_rule(const Request& r) {
  unsupported(r, fmt::format("{} has no gradient", op_name(r.node.op)),
              "differentiate the graph of whole tensors; what ranks exchange follows from how its values lie");
}

Values attention_gradient_rule(const Request& r) {
  unsupported(r, "second derivatives of attention are not defined",
              "compose attention from dot and softmax where second derivatives are needed");
}

}  // namespace

// As long as there are ops: each has its case.
GradientRule gradient_rule(Op op) {
  switch (op) {
    case Op::kInput:
    case Op::kConstant:
    case Op::kIota:
    case Op::kRandomBits:
    case Op::kFloor:
    case Op::kBitcast:
    case Op::kAnd:
    case Op::kOr:
    case Op::kXor:
    case Op::kShl:
    case Op::kShr:
    case Op::kLt:
    case Op::kLe:
    case Op::kEq:
    case Op::kArgmax:
    case Op::kAttentionBlockMap:
      return nullptr;
    case Op::kNeg:
      return neg_rule;
    case Op::kAbs:
      return abs_rule;
    case Op::kExp2:
      return exp2_rule;
    case Op::kLog2:
      return log2_rule;
    case Op::kSin:
      return sin_rule;
    case Op::kCos:
      return cos_rule;
    case Op::kSqrt:
      return sqrt_rule;
    case Op::kRsqrt:
      return rsqrt_rule;
    case Op::kRecip:
      return recip_rule;
    case Op::kTanh:
      return tanh_rule;
    case Op::kErf:
      return erf_rule;
    case Op::kCast:
      return cast_rule;
    case Op::kAdd:
      return add_rule;
    case Op::kSub:
      return sub_rule;
    case Op::kMul:
      return mul_rule;
    case Op::kDiv:
      return div_rule;
    case Op::kRem:
      return rem_rule;
    case Op::kMax:
      return max_rule;
    case Op::kMin:
      return min_rule;
    case Op::kPow:
      return pow_rule;
    case Op::kSelect:
      return select_rule;
    case Op::kFma:
      return fma_rule;
    case Op::kReduceSum:
      return reduce_sum_rule;
    case Op::kReduceMax:
      return reduce_max_rule;
    case Op::kCumsum:
      return cumsum_rule;
    case Op::kReshape:
      return reshape_rule;
    case Op::kConstrainSharding:
      return constrain_sharding_rule;
    case Op::kPermute:
      return permute_rule;
    case Op::kBroadcast:
      return broadcast_rule;
    case Op::kSlice:
      return slice_rule;
    case Op::kPad:
      return pad_rule;
    case Op::kConcat:
      return concat_rule;
    case Op::kGather:
      return gather_rule;
    case Op::kScatterAdd:
      return scatter_add_rule;
    case Op::kTopk:
      return topk_rule;
    case Op::kDot:
      return dot_rule;
    case Op::kScaledDot:
      return scaled_dot_rule;
    case Op::kGroupedDot:
      return grouped_dot_rule;
    case Op::kAttention:
      return attention_rule;
    case Op::kAttentionGradient:
      return attention_gradient_rule;
    case Op::kLinearCrossEntropy:
      return linear_cross_entropy_rule;
    case Op::kUserKernel:
      return user_kernel_rule;
    case Op::kAllReduce:
    case Op::kAllGather:
    case Op::kReduceScatter:
    case Op::kAllToAll:
      return collective_rule;
    case Op::kSend:
    case Op::kReceive:
      return nullptr;
  }
  return nullptr;
}

}  // namespace causeway::passes
