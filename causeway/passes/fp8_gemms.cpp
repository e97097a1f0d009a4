#include "causeway/passes/fp8_gemms.h"

#include <array>
#include <set>
#include <vector>

#include "causeway/device/preferred_sizes.h"
#include "causeway/graph/op.h"
#include "causeway/graph/rewrite.h"
#include "causeway/passes/builder.h"
#include "causeway/passes/optimizer_scope.h"

namespace causeway::passes {
namespace {

// So that a tensor of zeros has a scale.
constexpr double kLeastMagnitude = 0x1p-100;

double largest(DType dtype) { return dtype == DType::kF8E4M3 ? 448 : 57344; }

bool is_matrix_of_multiples(const TensorType& type, int64_t multiple) {
  return type.shape.size() == 2 && type.dtype == DType::kBF16 && type.shape[0].divide_exactly(multiple) &&
         type.shape[1].divide_exactly(multiple);
}

// Whether the value was computed by the backward pass: a gradient, where it meets a weight or an activation.
bool is_gradient(const Graph& graph, Value value) {
  for (;;) {
    const Node& node = graph.node(value);
    if (node.op != Op::kCast && op_info(node.op).kind != OpKind::kMovement) return node.backward;
    value = node.inputs[0];
  }
}

// Whether the matrix follows from sums over its rows, as what norms and their gradients give: the loop that has those
// sums finds the largest magnitude of each row too, in place of one that would read all of the matrix for that.
bool follows_sums_of_rows(const Graph& graph, Value matrix) {
  constexpr size_t kMostValues = 64;  // that are looked at, the nearest first
  const Dim rows = graph.shape(matrix)[0], count = rows * graph.shape(matrix)[1];
  std::vector<Value> values = {matrix};
  std::set<Value> seen = {matrix};
  for (size_t i = 0; i < values.size() && i < kMostValues; ++i) {
    const Node& node = graph.node(values[i]);
    if (node.op == Op::kReduceSum && element_count(node.outputs[0].shape) == rows &&
        element_count(graph.shape(node.inputs[0])) == count)
      return true;
    if (!is_elementwise(node.op) && op_info(node.op).kind != OpKind::kMovement) continue;
    for (const Value input : node.inputs)
      if (seen.insert(input).second) values.push_back(input);
  }
  return false;
}

// The largest magnitude, the same either way.
Value largest_magnitude(const Builder& build, Value matrix) {
  const Value magnitudes = build.graph().add(Op::kAbs, {matrix});
  if (!follows_sums_of_rows(build.graph(), matrix)) return build.reduce_max(magnitudes, {0, 1});
  return build.reduce_max(build.reduce_max(magnitudes, {1}), {0});
}

// What numbers of a magnitude are multiplied with, a power of two.
Value factor_of(const Builder& build, Value magnitude, DType dtype) {
  const Value bounded = build.graph().add(Op::kMax, {magnitude, build.constant_like(magnitude, kLeastMagnitude)});
  const Value ratio = build.div(build.constant_like(bounded, largest(dtype)), bounded);
  return build.exp2(build.graph().add(Op::kFloor, {build.log2(ratio)}));
}

struct Quantized {
  Value values;   // [lines, k], 8 bits
  Value inverse;  // f32 scalar, or scales of a scaled_dot: what they are to be multiplied by
};

Quantized quantize(const Builder& build, Value matrix, bool k_last, DType dtype) {
  const Value wide = build.cast(matrix, DType::kF32);
  const Value factor = factor_of(build, largest_magnitude(build, wide), dtype);
  const Value scaled = build.mul(wide, build.broadcast(factor, build.shape(wide), {}));
  const Value values = build.cast(scaled, dtype);
  return {k_last ? values : build.permute(values, {1, 0}), build.recip(factor)};
}

// The matrix in blocks of `rows` x `columns`, and the axes within one. Rows of blocks that are one row high are none.
struct Blocks {
  Shape shape;
  std::vector<int64_t> within;

  Blocks(const Shape& matrix, int64_t rows, int64_t columns) {
    const auto add = [&](const Dim& size, int64_t in_block) {
      shape.push_back(*size.divide_exactly(in_block));
      if (in_block == 1) return;
      within.push_back(static_cast<int64_t>(shape.size()));
      shape.emplace_back(in_block);
    };
    add(matrix[0], rows);
    add(matrix[1], columns);
  }
};

// `lines`: how many share a scale.
Quantized quantize_blocks(const Builder& build, Value matrix, bool k_last, DType dtype, int64_t lines) {
  const Shape shape = build.shape(matrix);
  const Blocks blocks(shape, k_last ? lines : kScaledBlock, k_last ? kScaledBlock : lines);
  const Value wide = build.reshape(build.cast(matrix, DType::kF32), blocks.shape);
  const Value magnitude = build.reduce_max(build.graph().add(Op::kAbs, {wide}), blocks.within);
  const Value factor = factor_of(build, magnitude, dtype);
  const Value scaled = build.mul(wide, build.broadcast_over(factor, blocks.shape, blocks.within));
  const Value values = build.reshape(build.cast(scaled, dtype), shape);
  const Value inverse = build.recip(factor);
  if (k_last) return {values, build.permute(inverse, {1, 0})};
  return {build.permute(values, {1, 0}), inverse};
}

// A weight: an input of the graph, cast and moved at most.
bool is_weight(const Graph& graph, Value value) {
  while (graph.node(value).op == Op::kCast || op_info(graph.node(value).op).kind == OpKind::kMovement) {
    if (graph.node(value).op == Op::kConcat) return false;
    value = graph.node(value).inputs[0];
  }
  return graph.node(value).op == Op::kInput;
}

// Whether blocks of the operand can have scales, `lines` of them one.
bool has_blocks(const TensorType& type, bool k_last, int64_t lines) {
  return type.shape[k_last ? 1 : 0].divide_exactly(kScaledBlock) && type.shape[k_last ? 0 : 1].divide_exactly(lines);
}

// What a block's scale makes of its numbers, exactly: they have 4 bits, and the scale is a power of two.
Value dequantize_blocks(const Builder& build, const Quantized& quantized, int64_t lines) {
  const Shape shape = build.shape(quantized.values);
  const Blocks blocks(shape, lines, kScaledBlock);
  const Value wide = build.reshape(build.cast(quantized.values, DType::kF32), blocks.shape);
  const Value scales = build.broadcast_over(build.permute(quantized.inverse, {1, 0}), blocks.shape, blocks.within);
  return build.cast(build.reshape(build.mul(wide, scales), shape), DType::kBF16);
}

class Narrowing {
 public:
  Narrowing(const Graph& source, Graph& target, const Node& node, const std::vector<Value>& inputs)
      : source_(source),
        build_(target),
        node_(node),
        inputs_(inputs),
        k_last_{!node.attributes.transpose_a, node.attributes.transpose_b},
        dtype_(node.outputs[0].dtype) {}

  Value product_of_tensors() const {
    const auto quantized = [&](size_t i) {
      return quantize(build_, inputs_[i], k_last_[i], is_gradient_of(i) ? DType::kF8E5M2 : DType::kF8E4M3);
    };
    const Quantized a = quantized(0), b = quantized(1);
    const Value gemm = build_.cast(build_.dot(a.values, b.values, false, true, dtype_), DType::kF32);
    const Value scale = build_.mul(a.inverse, b.inverse);
    return build_.cast(build_.mul(gemm, build_.broadcast(scale, build_.shape(gemm), {})), dtype_);
  }

  bool consists_of_blocks() const {
    return has_blocks(build_.graph().type(inputs_[0]), k_last_[0], lines(0)) &&
           has_blocks(build_.graph().type(inputs_[1]), k_last_[1], lines(1));
  }

  // Kernels of blocks want a constant k.
  bool has_constant_k() const { return build_.shape(inputs_[0])[k_last_[0] ? 1 : 0].is_constant(); }

  Value gemm_of_blocks(bool has_kernels) const {
    const auto quantized = [&](size_t i) {
      return quantize_blocks(build_, inputs_[i], k_last_[i], DType::kF8E4M3, lines(i));
    };
    const Quantized a = quantized(0), b = quantized(1);
    if (has_kernels) return build_.scaled_dot(a.values, b.values, a.inverse, b.inverse, dtype_);
    return build_.dot(dequantize_blocks(build_, a, lines(0)), dequantize_blocks(build_, b, lines(1)), false, true,
                      dtype_);
  }

 private:
  const Graph& source_;
  const Builder build_;
  const Node& node_;
  const std::vector<Value>& inputs_;
  const std::array<bool, 2> k_last_;
  const DType dtype_;

  bool is_gradient_of(size_t i) const { return is_gradient(source_, node_.inputs[i]); }
  int64_t lines(size_t i) const {
    const bool share = is_weight(source_, node_.inputs[i]) || (i == 1 && !is_gradient_of(i));
    return share ? kScaledBlock : 1;
  }
};

}  // namespace

Graph fp8_gemms(const Graph& graph, Fp8Scales scales, const PreferredSizes& sizes) {
  return rebuild_graph(graph, [&](Graph& target, const Node& node, const std::vector<Value>& inputs) {
    if (node.op != Op::kDot || is_of_optimizer(node) ||
        !is_matrix_of_multiples(target.type(inputs[0]), sizes.f8_multiple) ||
        !is_matrix_of_multiples(target.type(inputs[1]), sizes.f8_multiple))
      return copy_node(target, node, inputs);
    const Narrowing narrowing(graph, target, node, inputs);
    const Value gemm = scales == Fp8Scales::kBlock && narrowing.consists_of_blocks()
                           ? narrowing.gemm_of_blocks(sizes.f8_blocks && narrowing.has_constant_k())
                           : narrowing.product_of_tensors();
    return std::vector<Value>{gemm};
  });
}

}  // namespace causeway::passes
