#include "causeway/passes/fp8_products.h"

#include "causeway/graph/rewrite.h"
#include "causeway/passes/builder.h"

namespace causeway::passes {
namespace {

// The shared-memory rows of the tensor copy engine are 16 bytes.
constexpr int64_t kMultiple = 16;
// So that a tensor of zeros has a scale.
constexpr double kLeastMagnitude = 0x1p-100;

double largest(DType dtype) { return dtype == DType::kF8E4M3 ? 448 : 57344; }

bool is_matrix_of_multiples(const TensorType& type) {
  return type.shape.size() == 2 && type.dtype == DType::kBF16 && type.shape[0].divide_exactly(kMultiple) &&
         type.shape[1].divide_exactly(kMultiple);
}

// Whether the value was computed by the backward pass: a gradient, where it meets a weight or an activation.
bool is_gradient(const Graph& graph, Value value) {
  for (;;) {
    const Node& node = graph.node(value);
    if (node.op != Op::kCast && op_info(node.op).kind != OpKind::kMovement) return node.backward;
    value = node.inputs[0];
  }
}

struct Quantized {
  Value values;   // [lines, k], 8 bits
  Value inverse;  // f32 scalar: what they are to be multiplied by
};

Quantized quantize(const Builder& build, Value matrix, bool k_last, DType dtype) {
  const Value wide = build.cast(matrix, DType::kF32);
  const Value magnitude = build.reduce_max(build.graph().add(Op::kAbs, {wide}), {0, 1});
  const Value bounded = build.graph().add(Op::kMax, {magnitude, build.constant_like(magnitude, kLeastMagnitude)});
  const Value ratio = build.div(build.constant_like(bounded, largest(dtype)), bounded);
  const Value factor = build.exp2(build.graph().add(Op::kFloor, {build.log2(ratio)}));
  const Value scaled = build.mul(wide, build.broadcast(factor, build.shape(wide), {}));
  const Value values = build.cast(scaled, dtype);
  return {k_last ? values : build.permute(values, {1, 0}), build.recip(factor)};
}

}  // namespace

Graph fp8_products(const Graph& graph) {
  return rebuild_graph(graph, [&](Graph& target, const Node& node, const std::vector<Value>& inputs) {
    if (node.op != Op::kDot || !is_matrix_of_multiples(target.type(inputs[0])) ||
        !is_matrix_of_multiples(target.type(inputs[1])))
      return copy_node(target, node, inputs);
    const std::string scope = target.scope();
    const bool backward = target.backward();
    target.set_scope(node.scope);
    target.set_backward(node.backward);
    const Builder build(target);
    const auto narrow = [&](size_t i) { return is_gradient(graph, node.inputs[i]) ? DType::kF8E5M2 : DType::kF8E4M3; };
    const Quantized a = quantize(build, inputs[0], !node.attributes.transpose_a, narrow(0));
    const Quantized b = quantize(build, inputs[1], node.attributes.transpose_b, narrow(1));
    const DType dtype = node.outputs[0].dtype;
    const Value product = build.cast(build.dot(a.values, b.values, false, true, dtype), DType::kF32);
    const Value scale = build.mul(a.inverse, b.inverse);
    const Value result = build.mul(product, build.broadcast(scale, build.shape(product), {}));
    const Value stored = build.cast(result, dtype);
    target.set_scope(scope);
    target.set_backward(backward);
    return std::vector<Value>{stored};
  });
}

}  // namespace causeway::passes
