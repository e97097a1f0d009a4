#include "causeway/passes/decoded_weights.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "causeway/graph/interpreter.h"
#include "causeway/graph/parser.h"
#include "causeway/graph/printer.h"
#include "causeway/passes/recompute.h"
#include "tests/fixtures/op_literal.h"
#include "tests/random_graph/random_graph.h"

namespace causeway::passes {
namespace {

// A weight of codes and a scale, in a forward and two backward GEMMs.
constexpr char kCodedGraph[] = R"(%0 = input "codes" : u8[4, 4]
%1 = input "scale" : f32[4]
%2 = input "x" : f32[3, 4]
%3 = cast(%0) : f32[4, 4]  # layers.0
%4 = broadcast(%1) {axes=[0]} : f32[4, 4]  # layers.0
%5 = mul(%3, %4) : f32[4, 4]  # layers.0
%6 = dot(%2, %5) : f32[3, 4]  # layers.0
%7 = exp2(%6) : f32[3, 4]  # layers.0
%8 = dot(%7, %5) {transpose_b, backward} : f32[3, 4]  # layers.0
%9 = dot(%8, %5) {backward} : f32[3, 4]  # layers.0
return %9
)";

int64_t nodes_of(const Graph& graph, Op op) { return std::ranges::count(graph.nodes(), op, &Node::op); }

TEST(DecodedWeights, EveryGemmDecodesItsOwn) {
  const Graph graph = parse_graph(kCodedGraph), decoded = decode_weights_at_use(graph);
  decoded.verify("decode_weights_at_use");
  EXPECT_EQ(nodes_of(decoded, "mul"_op), 3) << print_graph(decoded);
  for (size_t i = 0; i < decoded.nodes().size(); ++i) {
    const Node& node = decoded.nodes()[i];
    if (node.op != "dot"_op) continue;
    // Right before it.
    EXPECT_EQ(node.inputs[1].node + 1, static_cast<int32_t>(i));
    const Node& weight = decoded.node(node.inputs[1]);
    EXPECT_EQ(weight.op, "mul"_op);
    EXPECT_EQ(weight.backward, node.backward);
    EXPECT_EQ(weight.scope, "layers.0");
  }
}

// The forward pass's weight is no value that the backward pass may keep, whatever the policy.
TEST(DecodedWeights, AreNotRecomputedByOthers) {
  const Graph graph = parse_graph(kCodedGraph);
  for (const RecomputePolicy policy : {RecomputePolicy::kSelective, RecomputePolicy::kBlock}) {
    const Graph result = decode_weights_at_use(recompute(graph, {policy}));
    result.verify("decode_weights_at_use");
    EXPECT_EQ(nodes_of(result, "mul"_op), nodes_of(result, "dot"_op)) << print_graph(result);
  }
}

TEST(DecodedWeights, ValuesStayTheSame) {
  const Graph graph = parse_graph(kCodedGraph);
  const std::vector<HostTensor> inputs = {
      make_host_tensor(DType::kU8, {4, 4}, {1, 0, 3, 9, 7, 2, 1, 1, 0, 4, 5, 6, 255, 0, 1, 8}),
      random_host_tensor(DType::kF32, {4}, 1), random_host_tensor(DType::kF32, {3, 4}, 2)};
  EXPECT_EQ(interpret(decode_weights_at_use(graph), inputs)[0].values, interpret(graph, inputs)[0].values);
}

TEST(DecodedWeights, OtherGraphsStayAsTheyAre) {
  // Bytes that are given a new value, as an optimizer's are, and bytes that no GEMM multiplies.
  for (const char* text : {R"(%0 = input "codes" : u8[4, 4]
%1 = input "x" : f32[3, 4]
%2 = cast(%0) : f32[4, 4]
%3 = dot(%1, %2) : f32[3, 4]
%4 = dot(%3, %2) {backward} : f32[3, 4]
%5 = constant 3 : u8[4, 4]
assign %0 = %5
return %4
)",
                           R"(%0 = input "pixels" : u8[3, 4]
%1 = input "w" : f32[4, 4]
%2 = cast(%0) : f32[3, 4]
%3 = exp2(%2) : f32[3, 4]
%4 = mul(%3, %2) {backward} : f32[3, 4]
return %4
)"}) {
    const Graph graph = parse_graph(text);
    EXPECT_EQ(print_graph(decode_weights_at_use(graph)), print_graph(graph));
  }
}

}  // namespace
}  // namespace causeway::passes
