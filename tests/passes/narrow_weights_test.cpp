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
  const NarrowedWeights narrowed = narrow_weights(graph, {false, true, true, false}, DType::kBF16, {});
  narrowed.graph.verify("narrow_weights");
  EXPECT_EQ(narrowed.sources, (std::vector<NarrowedWeights::Source>{{{1}, false}}));
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
  const NarrowedWeights narrowed = narrow_weights(graph, {false, true, true}, DType::kBF16, {.lines_along_k = true});
  narrowed.graph.verify("narrow_weights");
  EXPECT_EQ(narrowed.sources, (std::vector<NarrowedWeights::Source>{{{1}, true}, {{2}, false}}));
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

int dots_of(const Graph& graph) {
  return static_cast<int>(
      std::count_if(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) { return node.op == "dot"_op; }));
}

// Three matrices that one activation is multiplied by, which is reshaped anew for each, as models' layers are traced;
// two that lie as [k, n]. None of the others: one whose columns are no whole vectors, one that changes, one that
// another activation is multiplied by as well, one of another activation.
TEST(NarrowWeights, MatricesOfOneActivationLieBelowOneAnother) {
  const Graph graph = parse_graph(R"(%0 = input "x" : f32[2, 2, 8]
%1 = input "q" : f32[16, 8]
%2 = input "k" : f32[8, 8]
%3 = input "v" : f32[24, 8]
%4 = input "odd" : f32[6, 8]
%5 = input "changing" : f32[8, 8]
%6 = input "shared" : f32[8, 8]
%7 = input "gate" : f32[8, 32]
%8 = input "up" : f32[8, 16]
%9 = input "y" : f32[4, 8]
%10 = input "other" : f32[8, 8]
%11 = reshape(%0) : f32[4, 8]
%12 = dot(%11, %1) {transpose_b} : f32[4, 16]
%13 = reshape(%0) : f32[4, 8]
%14 = dot(%13, %2) {transpose_b} : f32[4, 8]
%15 = dot(%13, %4) {transpose_b} : f32[4, 6]
%16 = dot(%13, %5) {transpose_b} : f32[4, 8]
%17 = dot(%13, %6) {transpose_b} : f32[4, 8]
%18 = dot(%9, %6) {transpose_b} : f32[4, 8]
%19 = reshape(%0) : f32[4, 8]
%20 = dot(%19, %3) {transpose_b} : f32[4, 24]
%21 = dot(%11, %7) : f32[4, 32]
%22 = dot(%13, %8) : f32[4, 16]
%23 = dot(%9, %10) {transpose_b} : f32[4, 8]
return %12, %14, %15, %16, %17, %18, %20, %21, %22, %23
)");
  std::vector<bool> never_change(graph.inputs().size(), true);
  never_change[0] = never_change[5] = never_change[9] = false;
  const NarrowedWeights narrowed =
      narrow_weights(graph, never_change, DType::kBF16, {.lines_along_k = true, .joined = true});
  narrowed.graph.verify("narrow_weights");
  EXPECT_EQ(narrowed.sources, (std::vector<NarrowedWeights::Source>{
                                  {{1, 2, 3}, false}, {{4}, false}, {{6}, false}, {{7, 8}, true}, {{10}, false}}));
  EXPECT_EQ(dots_of(narrowed.graph), dots_of(graph) - 3);
  EXPECT_EQ(narrowed.graph.type(narrowed.graph.inputs()[11]).text(), "bf16[48, 8]");
  EXPECT_EQ(narrowed.graph.type(narrowed.graph.inputs()[14]).text(), "bf16[48, 8]");

  std::vector<HostTensor> inputs;
  uint64_t seed = 1;
  for (const Value input : graph.inputs())
    inputs.push_back(random_host_tensor(DType::kF32, evaluate(graph.type(input).shape, {}), seed++, -1, 1));
  const std::vector<HostTensor> expected = interpret(mixed(graph), inputs, {}, Rounding::kRounded);
  const Graph cast = parse_graph(R"(%0 = input "q" : f32[16, 8]
%1 = input "k" : f32[8, 8]
%2 = input "v" : f32[24, 8]
%3 = input "gate" : f32[8, 32]
%4 = input "up" : f32[8, 16]
%5 = input "odd" : f32[6, 8]
%6 = input "shared" : f32[8, 8]
%7 = input "other" : f32[8, 8]
%8 = concat(%0, %1, %2) {axes=[0]} : f32[48, 8]
%9 = cast(%8) : bf16[48, 8]
%10 = cast(%5) : bf16[6, 8]
%11 = cast(%6) : bf16[8, 8]
%12 = permute(%3) {axes=[1, 0]} : f32[32, 8]
%13 = permute(%4) {axes=[1, 0]} : f32[16, 8]
%14 = concat(%12, %13) {axes=[0]} : f32[48, 8]
%15 = cast(%14) : bf16[48, 8]
%16 = cast(%7) : bf16[8, 8]
return %9, %10, %11, %15, %16
)");
  for (HostTensor& narrow :
       interpret(cast, {inputs[1], inputs[2], inputs[3], inputs[7], inputs[8], inputs[4], inputs[6], inputs[10]}, {},
                 Rounding::kRounded))
    inputs.push_back(std::move(narrow));
  const std::vector<HostTensor> actual = interpret(mixed(narrowed.graph), inputs, {}, Rounding::kRounded);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(actual[i].values, expected[i].values) << i;
}

TEST(NarrowWeights, WhatMayChangeStays) {
  const Graph graph = parse_graph(kNarrowText);
  const NarrowedWeights narrowed = narrow_weights(graph, {false, false, false, false}, DType::kBF16, {});
  EXPECT_TRUE(narrowed.sources.empty());
  EXPECT_EQ(print_graph(narrowed.graph), print_graph(graph));
}

}  // namespace
}  // namespace causeway::passes
