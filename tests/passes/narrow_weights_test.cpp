#include "causeway/passes/narrow_weights.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "causeway/graph/interpreter.h"
#include "causeway/graph/parser.h"
#include "causeway/graph/printer.h"
#include "causeway/passes/canonicalize.h"
#include "causeway/passes/eliminate_dead_code.h"
#include "causeway/passes/mixed_precision.h"
#include "tests/fixtures/op_literal.h"

namespace causeway::passes {
namespace {

// A weight that is multiplied, moved at first, and looked up; one that changes.
constexpr const char* kNarrowText = R"(%0 = input "x" : f32[4, 8]
%1 = input "weight" : f32[8, 6]
%2 = input "rows" : i32[3]
%3 = input "changing" : f32[6, 5]
%4 = dot(%0, %1) : f32[4, 6]
%5 = permute(%1) {axes=[1, 0]} : f32[6, 8]
%6 = dot(%0, %5) {transpose_b} : f32[4, 6]
%7 = gather(%1, %2) {axes=[0]} : f32[3, 6]
%8 = add(%4, %6) : f32[4, 6]
%9 = dot(%8, %3) : f32[4, 5]
return %9, %7
)";

Graph mixed(const Graph& graph) {
  return eliminate_dead_code(canonicalize(mixed_precision(graph, {DType::kBF16, DType::kF32})));
}

int casts_of(const Graph& graph, size_t input) {
  return static_cast<int>(std::count_if(graph.nodes().begin(), graph.nodes().end(), [&](const Node& node) {
    return node.op == "cast"_op && node.inputs[0] == graph.inputs()[input];
  }));
}

TEST(NarrowWeights, GemmsReadAFurtherInput) {
  const Graph graph = parse_graph(kNarrowText);
  const NarrowedWeights narrowed = narrow_weights(graph, {false, true, true, false}, DType::kBF16, false);
  narrowed.graph.verify("narrow_weights");
  EXPECT_EQ(narrowed.sources, (std::vector<NarrowedWeights::Source>{{1, false}}));
  ASSERT_EQ(narrowed.graph.inputs().size(), 5u);
  EXPECT_EQ(narrowed.graph.dtype(narrowed.graph.inputs()[4]), DType::kBF16);

  const Graph before = mixed(graph), after = mixed(narrowed.graph);
  EXPECT_GT(casts_of(before, 1), 0);
  EXPECT_EQ(casts_of(after, 1), 0) << print_graph(after);
  EXPECT_EQ(casts_of(after, 4), 0) << print_graph(after);
  EXPECT_EQ(casts_of(after, 3), casts_of(before, 3));

  std::vector<HostTensor> inputs;
  uint64_t seed = 1;
  for (const Value input : graph.inputs()) {
    const TensorType& type = graph.type(input);
    inputs.push_back(random_host_tensor(type.dtype, evaluate(type.shape, {}), seed++,
                                        type.dtype == DType::kI32 ? 0 : -1, type.dtype == DType::kI32 ? 8 : 1));
  }
  const std::vector<HostTensor> expected = interpret(before, inputs, {}, Rounding::kRounded);
  const Graph cast = parse_graph("%0 = input \"w\" : f32[8, 6]\n%1 = cast(%0) : bf16[8, 6]\nreturn %1\n");
  inputs.push_back(interpret(cast, {inputs[1]}, {}, Rounding::kRounded).front());
  const std::vector<HostTensor> actual = interpret(after, inputs, {}, Rounding::kRounded);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(actual[i].values, expected[i].values) << i;
}

TEST(NarrowWeights, MatricesAlongKAreTransposed) {
  const Graph graph = parse_graph(R"(%0 = input "x" : f32[4, 8]
%1 = input "w" : f32[8, 6]
%2 = input "embedding" : f32[9, 6]
%3 = dot(%0, %1) : f32[4, 6]
%4 = dot(%3, %2) {transpose_b} : f32[4, 9]
return %4
)");
  const NarrowedWeights narrowed = narrow_weights(graph, {false, true, true}, DType::kBF16, true);
  narrowed.graph.verify("narrow_weights");
  EXPECT_EQ(narrowed.sources, (std::vector<NarrowedWeights::Source>{{1, true}, {2, false}}));
  EXPECT_EQ(narrowed.graph.type(narrowed.graph.inputs()[3]).text(), "bf16[6, 8]");
  EXPECT_EQ(narrowed.graph.type(narrowed.graph.inputs()[4]).text(), "bf16[9, 6]");

  std::vector<HostTensor> inputs;
  uint64_t seed = 1;
  for (const Value input : graph.inputs())
    inputs.push_back(random_host_tensor(DType::kF32, evaluate(graph.type(input).shape, {}), seed++, -1, 1));
  const HostTensor expected = interpret(mixed(graph), inputs, {}, Rounding::kRounded).front();
  const Graph cast = parse_graph(R"(%0 = input "w" : f32[8, 6]
%1 = input "embedding" : f32[9, 6]
%2 = permute(%0) {axes=[1, 0]} : f32[6, 8]
%3 = cast(%2) : bf16[6, 8]
%4 = cast(%1) : bf16[9, 6]
return %3, %4
)");
  for (HostTensor& narrow : interpret(cast, {inputs[1], inputs[2]}, {}, Rounding::kRounded))
    inputs.push_back(std::move(narrow));
  EXPECT_EQ(interpret(mixed(narrowed.graph), inputs, {}, Rounding::kRounded).front().values, expected.values);
}

TEST(NarrowWeights, WhatMayChangeStays) {
  const Graph graph = parse_graph(kNarrowText);
  const NarrowedWeights narrowed = narrow_weights(graph, {false, false, false, false}, DType::kBF16, false);
  EXPECT_TRUE(narrowed.sources.empty());
  EXPECT_EQ(print_graph(narrowed.graph), print_graph(graph));
}

}  // namespace
}  // namespace causeway::passes
