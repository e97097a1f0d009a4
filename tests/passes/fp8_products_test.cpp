#include "causeway/passes/fp8_products.h"

#include <gtest/gtest.h>

#include "causeway/graph/rewrite.h"
#include "causeway/passes/mixed_precision.h"
#include "tests/passes/same_values.h"
#include "tests/passes/small_model.h"

namespace causeway::passes {
namespace {

Graph narrowed(const SmallModel& model) {
  const Graph graph = fp8_products(mixed_precision(model.graph, {DType::kBF16, DType::kF32}));
  graph.verify("fp8_products");
  return graph;
}

TEST(Fp8Products, GradientsHaveTheWiderRange) {
  const int64_t layers = 2;
  const SmallModel model = small_model(layers, 32, 16, 64);
  const Graph graph = narrowed(model);
  const std::vector<bool> needed = needed_nodes(graph);
  int64_t forward = 0, backward = 0;
  for (size_t i = 0; i < needed.size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (!needed[i] || node.op != Op::kDot) continue;
    ++(node.backward ? backward : forward);
    const DType a = graph.dtype(node.inputs[0]), b = graph.dtype(node.inputs[1]);
    EXPECT_FALSE(node.attributes.transpose_a);
    EXPECT_TRUE(node.attributes.transpose_b);
    EXPECT_EQ((a == DType::kF8E5M2) + (b == DType::kF8E5M2), node.backward ? 1 : 0);
    EXPECT_EQ((a == DType::kF8E4M3) + (b == DType::kF8E4M3), node.backward ? 1 : 2);
  }
  EXPECT_EQ(forward, 7 * layers);
  EXPECT_EQ(backward, 2 * 7 * layers);
}

TEST(Fp8Products, ChangesOnlyTheRounding) {
  const SmallModel model = small_model(2, 32, 16, 64);
  const Graph graph = narrowed(model);
  expect_same_values(model.graph, graph, model.inputs, {}, bounds::kInterpreted);
  expect_rounded_values(model, graph, 3e-3, 0.3);
}

TEST(Fp8Products, LeavesOtherSizesAlone) {
  const SmallModel model = small_model(1, 24, 16, 64);
  const Graph graph = narrowed(model);
  for (const Node& node : graph.nodes())
    for (const TensorType& type : node.outputs)
      EXPECT_TRUE(type.dtype != DType::kF8E4M3 && type.dtype != DType::kF8E5M2);
}

TEST(Fp8Products, TensorsOfZerosStayZero) {
  SmallModel model = small_model(1, 32, 16, 64);
  for (HostTensor& input : model.inputs)
    if (input.shape.size() == 2) std::fill(input.values.begin(), input.values.end(), 0.0);
  for (const HostTensor& value : interpret(narrowed(model), model.inputs, {}, Rounding::kRounded))
    for (const double number : value.values) EXPECT_TRUE(std::isfinite(number));
}

}  // namespace
}  // namespace causeway::passes
