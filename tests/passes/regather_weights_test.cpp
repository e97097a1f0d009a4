#include "causeway/passes/regather_weights.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "causeway/graph/interpreter.h"
#include "causeway/graph/parser.h"
#include "causeway/graph/printer.h"

namespace causeway::passes {
namespace {

// A gathered weight in a forward and two backward products, and a gathered activation.
constexpr char kGraph[] = R"(%0 = input "w" : f32[2, 4]
%1 = input "x" : f32[3, 4]
%2 = cast(%0) : bf16[2, 4]  # layer
%3 = all_gather(%2) {count=2, group="fsdp"} : bf16[2, 2, 4]  # layer
%4 = reshape(%3) : bf16[4, 4]  # layer
%5 = cast(%1) : bf16[3, 4]
%6 = dot(%5, %4) : f32[3, 4]
%7 = all_gather(%6) {count=2, group="fsdp"} : f32[2, 3, 4]
%8 = cast(%6) : bf16[3, 4]
%9 = dot(%8, %4) {transpose_b, backward} : f32[3, 4]
%10 = dot(%8, %4) {backward} : f32[3, 4]
%11 = mul(%9, %10) {backward} : f32[3, 4]
%12 = broadcast(%11) {axes=[1, 2], backward} : f32[2, 3, 4]
%13 = mul(%12, %7) {backward} : f32[2, 3, 4]
return %13
)";

TEST(RegatherWeights, TheBackwardPassGathersOnceMore) {
  const Graph graph = parse_graph(kGraph), regathered = regather_weights(graph);
  regathered.verify("regather_weights");
  const auto gathers = [](const Graph& g, bool backward) {
    return std::count_if(g.nodes().begin(), g.nodes().end(),
                         [&](const Node& node) { return node.op == Op::kAllGather && node.backward == backward; });
  };
  EXPECT_EQ(gathers(regathered, false), 2);
  EXPECT_EQ(gathers(regathered, true), 1) << print_graph(regathered);
  for (size_t i = 0; i < regathered.nodes().size(); ++i) {
    const Node& node = regathered.nodes()[i];
    if (node.op != Op::kDot) continue;
    // Through the reshape.
    const Node& weight = regathered.node(regathered.node(node.inputs[1]).inputs[0]);
    EXPECT_EQ(weight.op, Op::kAllGather);
    EXPECT_EQ(weight.backward, node.backward);
    EXPECT_EQ(weight.scope, "layer");
  }
}

TEST(RegatherWeights, KeepsTheValues) {
  const Graph graph = parse_graph(kGraph);
  const Mesh mesh{{{"fsdp", 2, 1, true}}};
  std::vector<std::vector<HostTensor>> inputs;
  for (uint64_t rank = 0; rank < 2; ++rank)
    inputs.push_back(
        {random_host_tensor(DType::kF32, {2, 4}, rank), random_host_tensor(DType::kF32, {3, 4}, rank + 2)});
  const auto before = interpret_ranks(graph, mesh, inputs),
             after = interpret_ranks(regather_weights(graph), mesh, inputs);
  for (size_t rank = 0; rank < 2; ++rank) EXPECT_EQ(before[rank][0].values, after[rank][0].values);
}

}  // namespace
}  // namespace causeway::passes
