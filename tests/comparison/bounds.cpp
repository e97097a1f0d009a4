#include "tests/comparison/bounds.h"

#include <algorithm>
#include <cmath>

#include "causeway/graph/op.h"

namespace causeway::bounds {

using namespace graph;
namespace {

constexpr double kUnit = 0x1p-24;  // half a unit in the last place of f32

// How many terms a result of the node is the sum of; 1 where it is none.
int64_t terms_of(const Graph& graph, const Node& node, const SymbolBindings& bindings) {
  const auto elements = [&](const Shape& shape) { return element_count(shape).evaluate(bindings); };
  switch (node.op) {
    case Op::kDot: {
      const Shape& a = graph.shape(node.inputs[0]);
      return a[node.attributes.transpose_a ? a.size() - 2 : a.size() - 1].evaluate(bindings);
    }
    case Op::kScaledDot:
      return graph.shape(node.inputs[0])[1].evaluate(bindings);
    case Op::kGroupedDot: {
      const Shape& a = graph.shape(node.inputs[0]);
      return (node.attributes.transpose_a ? a[0] * a[1] : a[2]).evaluate(bindings);
    }
    case Op::kReduceSum:
      return elements(graph.shape(node.inputs[0])) / std::max<int64_t>(1, elements(node.outputs[0].shape));
    case Op::kCumsum:
      return graph.shape(node.inputs[0])[static_cast<size_t>(node.attributes.axes[0])].evaluate(bindings);
    case Op::kScatterAdd:
      return elements(graph.shape(node.inputs[1]));
    default:
      return 1;
  }
}

}  // namespace

Bound of_rms(double rms, double ulps) { return {.rms = rms, .row = 8 * rms, .ulps = ulps}; }

Bound elementwise(DType result) {
  const bool narrow = is_float(result) && size_bytes(result) < 4;
  return {.rms = 8 * kUnit, .row = 4 * kUnit, .ulps = narrow ? 1.0 : 12.0};
}

Bound sum(int64_t terms) { return of_rms((4 + std::sqrt(static_cast<double>(terms))) * kUnit, 1); }

Bound normalized(int64_t terms) {
  const Bound bound = sum(terms);
  return of_rms(2 * bound.rms, bound.ulps);
}

Bound product(DType operand, int64_t terms) {
  if (is_float(operand) && size_bytes(operand) == 1) return of_rms(0x1p-11, 1);
  return sum(terms);
}

Bound attention(DType operand) {
  switch (operand) {
    case DType::kBF16:
      return {.rms = 1.75 * 0x1p-9, .row = 21 * 0x1p-9, .ulps = 1};
    case DType::kF16:
      return {.rms = 1.75 * 0x1p-12, .row = 21 * 0x1p-12, .ulps = 1};
    default:
      return of_rms(24 * kUnit, 1);
  }
}

Bound attention_log_sum() { return of_rms(16 * kUnit, 1); }

Bound attention_in_tf32() { return {.rms = 4 * 0x1p-12, .row = 48 * 0x1p-12, .ulps = 1}; }

Bound derived(double absolute) { return {.absolute = absolute}; }

Bound of_graph(const Graph& graph, const SymbolBindings& bindings) {
  Bound bound = normalized(1);
  for (const Node& node : graph.nodes()) {
    const int64_t terms = terms_of(graph, node, bindings);
    if (terms == 0) return kExact;  // an empty sum
    const bool is_gemm = node.op == Op::kDot || node.op == Op::kScaledDot || node.op == Op::kGroupedDot;
    const Bound of_node = is_gemm      ? product(graph.dtype(node.inputs[0]), terms)
                          : terms == 1 ? bound
                                       : normalized(terms);
    if (of_node.rms > bound.rms) bound = of_node;
  }
  return bound;
}

Bound of_differences(const HostTensor& gradient, double rms) {
  const bool zero =
      std::all_of(gradient.values.begin(), gradient.values.end(), [](double value) { return value == 0; });
  return zero ? derived(rms) : of_rms(rms, 0);
}

}  // namespace causeway::bounds
