#include "causeway/passes/regather_weights.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "causeway/graph/interpreter.h"
#include "causeway/graph/parser.h"
#include "causeway/graph/printer.h"
#include "causeway/passes/recompute.h"
#include "causeway/passes/weight_gathers.h"
#include "tests/fixtures/op_literal.h"

namespace causeway::passes {
namespace {

// A gathered weight in a forward and two backward GEMMs, and a gathered activation.
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

Mesh mesh_over(const std::string& axis, bool keeps_weights) { return {{{axis, 2, 1, true, false, keeps_weights}}}; }

int64_t gathers(const Graph& graph, bool backward, const std::string& group = {}) {
  return std::count_if(graph.nodes().begin(), graph.nodes().end(), [&](const Node& node) {
    return node.op == "all_gather"_op && node.backward == backward && (group.empty() || node.attributes.group == group);
  });
}

TEST(RegatherWeights, TheBackwardPassGathersOnceMore) {
  const Graph graph = parse_graph(kGraph), regathered = regather_weights(graph, mesh_over("fsdp", false));
  regathered.verify("regather_weights");
  EXPECT_EQ(gathers(regathered, false), 2);
  EXPECT_EQ(gathers(regathered, true), 1) << print_graph(regathered);
  for (size_t i = 0; i < regathered.nodes().size(); ++i) {
    const Node& node = regathered.nodes()[i];
    if (node.op != "dot"_op) continue;
    // Through the reshape.
    const Node& weight = regathered.node(regathered.node(node.inputs[1]).inputs[0]);
    EXPECT_EQ(weight.op, "all_gather"_op);
    EXPECT_EQ(weight.backward, node.backward);
    EXPECT_EQ(weight.scope, "layer");
  }
}

TEST(RegatherWeights, KeepsTheValues) {
  const Graph graph = parse_graph(kGraph);
  const Mesh mesh = mesh_over("fsdp", false);
  std::vector<std::vector<HostTensor>> inputs;
  for (uint64_t rank = 0; rank < 2; ++rank)
    inputs.push_back(
        {random_host_tensor(DType::kF32, {2, 4}, rank), random_host_tensor(DType::kF32, {3, 4}, rank + 2)});
  const auto before = interpret_ranks(graph, mesh, inputs),
             after = interpret_ranks(regather_weights(graph, mesh), mesh, inputs);
  for (size_t rank = 0; rank < 2; ++rank) EXPECT_EQ(before[rank][0].values, after[rank][0].values);
}

TEST(RegatherWeights, KeepsWhatIsGatheredOverAxesThatKeepWeights) {
  const Graph graph = parse_graph(kGraph);
  EXPECT_EQ(print_graph(regather_weights(graph, mesh_over("fsdp", true))), print_graph(graph));
  // The gathered weight alone; the gathered activation is no weight.
  const WeightGathers found = find_weight_gathers(graph, mesh_over("fsdp", true));
  EXPECT_EQ(std::count(found.kept.begin(), found.kept.end(), true), 1);
  EXPECT_TRUE(found.kept[3]);
  EXPECT_EQ(std::count(found.made_again.begin(), found.made_again.end(), true), 0);
}

// A weight that both axes cut, gathered over dp and then over fsdp, and one that dp cuts alone.
constexpr char kBoth[] = R"(%0 = input "w" : f32[1, 4]
%1 = input "v" : f32[2, 4]
%2 = input "x" : f32[3, 4]
%3 = all_gather(%0) {count=2, group="dp"} : f32[2, 1, 4]  # layers.0
%4 = reshape(%3) : f32[2, 4]  # layers.0
%5 = all_gather(%4) {count=2, group="fsdp"} : f32[2, 2, 4]  # layers.0
%6 = reshape(%5) : f32[4, 4]  # layers.0
%7 = all_gather(%1) {count=2, group="dp"} : f32[2, 2, 4]  # layers.0
%8 = reshape(%7) : f32[4, 4]  # layers.0
%9 = dot(%2, %6) : f32[3, 4]  # layers.0
%10 = dot(%9, %8) : f32[3, 4]  # layers.0
%11 = exp2(%10) : f32[3, 4]  # layers.0
%12 = dot(%11, %8) {transpose_b, backward} : f32[3, 4]  # layers.0
%13 = dot(%12, %6) {transpose_b, backward} : f32[3, 4]  # layers.0
return %13, %10
)";

TEST(RegatherWeights, GathersAgainOverEveryAxisWhatOneDoesNotKeep) {
  const Mesh mesh{{{"fsdp", 2, 1, true}, {"dp", 2, 2, true, false, true}}};
  const Graph graph = parse_graph(kBoth), regathered = regather_weights(graph, mesh);
  regathered.verify("regather_weights");
  EXPECT_EQ(gathers(regathered, false), 3);
  EXPECT_EQ(gathers(regathered, true, "dp"), 1) << print_graph(regathered);
  EXPECT_EQ(gathers(regathered, true, "fsdp"), 1) << print_graph(regathered);
  const WeightGathers found = find_weight_gathers(graph, mesh);
  EXPECT_FALSE(found.kept[3]);
  EXPECT_FALSE(found.kept[5]);
  EXPECT_TRUE(found.kept[7]);
}

TEST(RegatherWeights, BlocksThatAreComputedAgainDoNotGatherWhatIsKept) {
  const Mesh mesh{{{"fsdp", 2, 1, true}, {"dp", 2, 2, true, false, true}}};
  const Graph graph = recompute(parse_graph(kBoth), {RecomputePolicy::kBlock}, mesh);
  EXPECT_EQ(gathers(graph, false, "dp") + gathers(graph, true, "dp"), 3) << print_graph(graph);
  EXPECT_EQ(gathers(graph, false, "fsdp") + gathers(graph, true, "fsdp"), 2) << print_graph(graph);
}

}  // namespace
}  // namespace causeway::passes
