#include "causeway/passes/tf32_products.h"

#include <gtest/gtest.h>

#include "causeway/graph/parser.h"
#include "causeway/graph/printer.h"
#include "causeway/passes/canonicalize.h"
#include "causeway/passes/gradient.h"
#include "causeway/passes/mixed_precision.h"
#include "tests/passes/small_model.h"

namespace causeway::passes {
namespace {

TEST(Tf32Products, EveryProductOfF32) {
  const SmallModel model = small_model(2, 32, 16, 64);
  const Graph graph = tf32_products(model.graph);
  graph.verify("tf32_products");
  int dots = 0;
  for (const Node& node : graph.nodes()) {
    EXPECT_EQ(node.attributes.tf32, node.op == Op::kDot);
    dots += node.op == Op::kDot;
  }
  EXPECT_GT(dots, 0);
}

TEST(Tf32Products, LeavesNarrowOperandsAlone) {
  const SmallModel model = small_model(1, 32, 16, 64);
  const Graph graph = tf32_products(mixed_precision(model.graph, {DType::kBF16, DType::kF32}));
  for (const Node& node : graph.nodes())
    if (node.op == Op::kDot) EXPECT_EQ(node.attributes.tf32, graph.dtype(node.inputs[0]) == DType::kF32);
}

TEST(Tf32Products, OtherPassesKeepTheAttribute) {
  Graph graph = parse_graph(
      "%0 = input \"a\" : f32[8, 4]\n%1 = input \"b\" : f32[8, 6]\n%2 = permute(%0) {axes=[1, 0]} : f32[4, 8]\n"
      "%3 = dot(%2, %1) {tf32} : f32[4, 6]\n%4 = reduce_sum(%3) {axes=[0, 1]} : f32[]\nreturn %4\n");
  EXPECT_NE(print_graph(graph).find("{tf32}"), std::string::npos);
  const std::vector<Value> inputs = graph.inputs();
  graph.outputs = add_gradients(graph, graph.outputs[0], inputs);
  const Graph simpler = canonicalize(graph);
  int dots = 0;
  for (const Node& node : simpler.nodes()) {
    if (node.op != Op::kDot) continue;
    ++dots;
    EXPECT_TRUE(node.attributes.tf32) << print_graph(simpler);
  }
  EXPECT_GE(dots, 2);
  EXPECT_EQ(print_graph(parse_graph(print_graph(simpler))), print_graph(simpler));
}

}  // namespace
}  // namespace causeway::passes
