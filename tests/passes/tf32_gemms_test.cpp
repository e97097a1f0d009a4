#include "causeway/passes/tf32_gemms.h"

#include <gtest/gtest.h>

#include "causeway/graph/parser.h"
#include "causeway/graph/printer.h"
#include "causeway/passes/canonicalize.h"
#include "causeway/passes/gradient.h"
#include "causeway/passes/mixed_precision.h"
#include "tests/fixtures/op_literal.h"
#include "tests/passes/small_model.h"

namespace causeway::passes {
namespace {

TEST(Tf32Gemms, EveryGemmOfF32) {
  const SmallModel model = small_model(2, 32, 16, 64);
  const Graph graph = tf32_gemms(model.graph, false);
  graph.verify("tf32_gemms");
  int dots = 0, attentions = 0;
  for (const Node& node : graph.nodes()) {
    const bool attention = node.op == "attention"_op || node.op == "attention_gradient"_op;
    EXPECT_EQ(node.attributes.tf32, node.op == "dot"_op || attention);
    dots += node.op == "dot"_op;
    attentions += attention;
  }
  EXPECT_GT(dots, 0);
  EXPECT_GT(attentions, 0);
}

TEST(Tf32Gemms, LeavesNarrowOperandsAlone) {
  const SmallModel model = small_model(1, 32, 16, 64);
  const Graph graph = tf32_gemms(mixed_precision(model.graph, {DType::kBF16, DType::kF32}), true);
  for (const Node& node : graph.nodes())
    if (node.op == "dot"_op) EXPECT_EQ(node.attributes.tf32, graph.dtype(node.inputs[0]) == DType::kF32);
}

// Whatever has to be transposed for several GEMMs is once, and stays so.
TEST(Tf32Gemms, OperandsLieAlongK) {
  const Graph traced = parse_graph(R"(%0 = input "x" : f32[2, 8, 4]
%1 = input "y" : f32[2, 8, 6]
%2 = input "w" : f32[6, 5]
%3 = dot(%0, %1) {transpose_a} : f32[2, 4, 6]
%4 = dot(%1, %0) {transpose_a} : f32[2, 6, 4]
%5 = dot(%0, %0) {transpose_b} : f32[2, 8, 8]
%6 = reshape(%1) : f32[16, 6]
%7 = dot(%6, %2) : f32[16, 5]
return %3, %4, %5, %7
)");
  const Graph graph = canonicalize(tf32_gemms(traced, true));
  graph.verify("tf32_gemms");
  int permutes = 0;
  for (const Node& node : graph.nodes()) {
    permutes += node.op == "permute"_op;
    if (node.op != "dot"_op) continue;
    EXPECT_FALSE(node.attributes.transpose_a) << print_graph(graph);
    EXPECT_TRUE(node.attributes.transpose_b) << print_graph(graph);
  }
  EXPECT_EQ(permutes, 3) << print_graph(graph);
  std::vector<HostTensor> inputs;
  for (const Value input : graph.inputs())
    inputs.push_back(random_host_tensor(DType::kF32, evaluate(graph.shape(input), {}), inputs.size() + 1, -1, 1));
  const std::vector<HostTensor> expected = interpret(traced, inputs), actual = interpret(graph, inputs);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(actual[i].values, expected[i].values);
}

TEST(Tf32Gemms, OtherPassesKeepTheAttribute) {
  Graph graph = parse_graph(
      "%0 = input \"a\" : f32[8, 4]\n%1 = input \"b\" : f32[8, 6]\n%2 = permute(%0) {axes=[1, 0]} : f32[4, 8]\n"
      "%3 = dot(%2, %1) {tf32} : f32[4, 6]\n%4 = reduce_sum(%3) {axes=[0, 1]} : f32[]\nreturn %4\n");
  EXPECT_NE(print_graph(graph).find("{tf32}"), std::string::npos);
  const std::vector<Value> inputs = graph.inputs();
  graph.outputs = add_gradients(graph, graph.outputs[0], inputs);
  const Graph simpler = canonicalize(graph);
  int dots = 0;
  for (const Node& node : simpler.nodes()) {
    if (node.op != "dot"_op) continue;
    ++dots;
    EXPECT_TRUE(node.attributes.tf32) << print_graph(simpler);
  }
  EXPECT_GE(dots, 2);
  EXPECT_EQ(print_graph(parse_graph(print_graph(simpler))), print_graph(simpler));
}

}  // namespace
}  // namespace causeway::passes
