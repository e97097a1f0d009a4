#include "causeway/passes/narrow_reductions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "causeway/graph/interpreter.h"
#include "causeway/graph/parser.h"
#include "causeway/graph/printer.h"
#include "causeway/passes/canonicalize.h"
#include "tests/fixtures/op_literal.h"

namespace causeway::passes {
namespace {

Mesh over(const std::string& axis, int64_t ranks, bool gathers_weights = true) {
  return {{{axis, ranks, 1, gathers_weights}}};
}

// A gradient of which every rank keeps a part, rounded; `use` reads %1, f32[3].
Graph gradient(int64_t ranks, const std::string& use) {
  return parse_graph(fmt::format(R"(%0 = input "terms" : f32[{0}, 3]
%1 = reduce_scatter(%0) {{count={0}, group="dp", backward}} : f32[3]  # layer
)",
                                 ranks) +
                     use);
}

constexpr char kRounded[] = R"(%2 = cast(%1) : bf16[3]
%3 = cast(%2) : f32[3]
%4 = mul(%3, %3) : f32[3]
return %3, %4
)";

int64_t count(const Graph& graph, Op op) {
  return std::count_if(graph.nodes().begin(), graph.nodes().end(), [&](const Node& node) { return node.op == op; });
}

TEST(NarrowReductions, TermsAreExchangedInBf16AndAddedInF32) {
  for (const int64_t ranks : {2, 3, 16, 17}) {
    const Graph graph = gradient(ranks, kRounded), narrow = narrow_reductions(graph, over("dp", ranks));
    narrow.verify("narrow_reductions");
    EXPECT_EQ(count(narrow, "reduce_scatter"_op), 0);
    ASSERT_EQ(count(narrow, "all_to_all"_op), 1);
    EXPECT_EQ(count(narrow, "reduce_sum"_op), ranks > 16 ? 1 : 0);
    for (const Node& node : narrow.nodes())
      if (node.op == "add"_op) EXPECT_EQ(node.outputs[0].dtype, DType::kF32);
    const auto moved = std::ranges::find(narrow.nodes(), "all_to_all"_op, &Node::op);
    EXPECT_EQ(moved->outputs[0].text(), fmt::format("bf16[{}, 3]", ranks));
    EXPECT_EQ(moved->scope, "layer");
    EXPECT_TRUE(moved->backward);
  }
}

TEST(NarrowReductions, DiffersByARoundingOfEachTerm) {
  for (const int64_t ranks : {2, 17}) {
    const Mesh mesh = over("dp", ranks);
    const Graph graph = gradient(ranks, kRounded);
    std::vector<std::vector<HostTensor>> inputs;
    for (int64_t rank = 0; rank < ranks; ++rank)
      inputs.push_back({random_host_tensor(DType::kF32, {ranks, 3}, static_cast<uint64_t>(rank) + 1)});
    const auto exact = interpret_ranks(graph, mesh, inputs),
               narrow = interpret_ranks(narrow_reductions(graph, mesh), mesh, inputs);
    for (size_t rank = 0; rank < static_cast<size_t>(ranks); ++rank)
      for (size_t i = 0; i < 3; ++i) {
        // Half a last place, of 8 bits, of every term, and of the sum twice.
        double terms = 0;
        for (const auto& of_rank : inputs) terms += std::abs(of_rank[0].values[rank * 3 + i]);
        const double sum = std::abs(exact[rank][0].values[i]);
        EXPECT_NEAR(narrow[rank][0].values[i], exact[rank][0].values[i], (terms + 2 * sum) / 256);
        EXPECT_GT(terms, 0);
      }
  }
}

TEST(NarrowReductions, LeavesWhatIsReadInF32) {
  const std::string uses[] = {"return %1\n", "%2 = cast(%1) : bf16[3]\n%3 = mul(%1, %1) : f32[3]\nreturn %2, %3\n",
                              "%2 = cast(%1) : f16[3]\nreturn %2\n", "%2 = cast(%1) : bf16[3]\nreturn %1, %2\n"};
  for (const std::string& use : uses) {
    const Graph graph = gradient(2, use);
    EXPECT_EQ(print_graph(narrow_reductions(graph, over("dp", 2))), print_graph(graph));
  }
}

// A GEMM stores its result rounded; what moves is bf16 then.
TEST(NarrowReductions, RoundsBeforeMovements) {
  const Graph graph = parse_graph(R"(%0 = input "a" : f32[6, 4]
%1 = dot(%0, %0) {transpose_b} : f32[6, 6]
%2 = reshape(%1) : f32[2, 3, 6]
%3 = permute(%2) {axes=[0, 2, 1]} : f32[2, 6, 3]
%4 = reduce_scatter(%3) {count=2, group="dp"} : f32[6, 3]
%5 = cast(%4) : bf16[6, 3]
return %5
)");
  const Graph narrow = canonicalize(narrow_reductions(graph, over("dp", 2)));
  const auto rounding = std::ranges::find(narrow.nodes(), "cast"_op, &Node::op);
  EXPECT_EQ(narrow.node(rounding->inputs[0]).op, "dot"_op) << print_graph(narrow);
  for (const Node& node : narrow.nodes())
    if (node.op == "permute"_op) EXPECT_EQ(node.outputs[0].dtype, DType::kBF16);
}

// What is exchanged in bf16 anyway moves as it is and is added up in f32, in the order of the ranks.
TEST(NarrowReductions, TermsOfBf16AreAddedInF32) {
  const Graph graph = parse_graph(R"(%0 = input "terms" : bf16[4, 3]
%1 = reduce_scatter(%0) {count=4, group="cp"} : bf16[3]
%2 = cast(%1) : f32[3]
return %2
)");
  const Mesh mesh = over("cp", 4);
  const Graph narrow = narrow_reductions(graph, mesh);
  narrow.verify("narrow_reductions");
  EXPECT_EQ(count(narrow, "reduce_scatter"_op), 0);
  ASSERT_EQ(count(narrow, "all_to_all"_op), 1);
  EXPECT_EQ(std::ranges::find(narrow.nodes(), "all_to_all"_op, &Node::op)->outputs[0].text(), "bf16[4, 3]");
  // 256 + 1 is 256 in bf16: of three ones beside it a sum in bf16 would keep none.
  std::vector<std::vector<HostTensor>> inputs;
  for (int rank = 0; rank < 4; ++rank)
    inputs.push_back({fill_host_tensor(DType::kBF16, {4, 3}, rank == 0 ? 256 : rank == 3 ? 2 : 1)});
  for (const std::vector<HostTensor>& outputs : interpret_ranks(narrow, mesh, inputs))
    for (const double value : outputs[0].values) EXPECT_EQ(value, 260);
}

// Sums along other axes are of activations, which are rounded where the model says.
TEST(NarrowReductions, LeavesAxesThatGatherNoWeights) {
  const Graph graph = gradient(2, kRounded);
  EXPECT_EQ(print_graph(narrow_reductions(graph, over("dp", 2, false))), print_graph(graph));
}

}  // namespace
}  // namespace causeway::passes
