#include "causeway/passes/split_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "causeway/graph/interpreter.h"
#include "causeway/graph/parser.h"
#include "causeway/graph/printer.h"
#include "causeway/passes/canonicalize.h"
#include "causeway/passes/eliminate_dead_code.h"
#include "causeway/passes/mixed_precision.h"
#include "causeway/tensor/halves.h"
#include "tests/fixtures/op_literal.h"

namespace causeway::passes {
namespace {

// A weight that is multiplied as it is and moved, updated and returned; one that is multiplied alone.
constexpr const char* kSplitText = R"(%0 = input "x" : f32[4, 8]
%1 = input "weight" : f32[8, 6]
%2 = input "other" : f32[6, 5]
%3 = input "step" : f32[8, 6]
%4 = dot(%0, %1) : f32[4, 6]
%5 = permute(%1) {axes=[1, 0]} : f32[6, 8]
%6 = dot(%0, %5) {transpose_b} : f32[4, 6]
%7 = add(%4, %6) : f32[4, 6]
%8 = dot(%7, %2) : f32[4, 5]
%9 = add(%1, %3) : f32[8, 6]
assign %1 = %9
return %8, %1
)";

// Inputs as they lie in memory that has both halves of some of them.
std::vector<HostTensor> in_halves(const SplitWeights& split, std::vector<HostTensor> inputs) {
  std::vector<HostTensor> lower;
  for (const size_t i : split.lower) {
    HostTensor& whole = inputs[i];
    const std::vector<std::byte> halves = tensor::split_halves(to_bytes(whole));
    lower.push_back(from_bytes(DType::kI16, whole.shape, halves.data() + halves.size() / 2));
    whole = from_bytes(DType::kBF16, whole.shape, halves.data());
  }
  inputs.insert(inputs.end(), lower.begin(), lower.end());
  EXPECT_EQ(inputs.size(), split.graph.inputs().size()) << print_graph(split.graph);
  return inputs;
}

HostTensor joined(const HostTensor& upper, const HostTensor& lower) {
  std::vector<std::byte> halves = to_bytes(upper), all(halves.size() * 2);
  const std::vector<std::byte> below = to_bytes(lower);
  halves.insert(halves.end(), below.begin(), below.end());
  tensor::join_halves(halves, 0, all);
  return from_bytes(DType::kF32, upper.shape, all.data());
}

int casts_of_input(const Graph& graph, size_t input) {
  return static_cast<int>(std::count_if(graph.nodes().begin(), graph.nodes().end(), [&](const Node& node) {
    return node.op == "cast"_op && node.inputs[0] == graph.inputs()[input];
  }));
}

Graph in_mixed_precision(const Graph& graph) {
  return eliminate_dead_code(canonicalize(mixed_precision(graph, {DType::kBF16, DType::kF32})));
}

class SplitWeightsTest : public testing::Test {
 protected:
  SplitWeightsTest() {
    uint64_t seed = 1;
    for (const Value input : graph_.inputs())
      inputs_.push_back(random_host_tensor(DType::kF32, evaluate(graph_.type(input).shape, {}), seed++, -1, 1));
  }

  std::vector<HostTensor> run_split() const {
    return interpret(in_mixed_precision(split_.graph), in_halves(split_, inputs_), {}, Rounding::kRounded);
  }

  const Graph graph_ = parse_graph(kSplitText);
  const SplitWeights split_ = split_weights(graph_, {false, true, true, false}, true);
  std::vector<HostTensor> inputs_;
};

TEST_F(SplitWeightsTest, GemmsReadUpperHalvesAndAllElseBoth) {
  split_.graph.verify("split_weights");
  EXPECT_EQ(split_.lower, (std::vector<size_t>{1, 2}));
  const std::vector<Value>& inputs = split_.graph.inputs();
  ASSERT_EQ(inputs.size(), 6u);
  EXPECT_EQ(split_.graph.type(inputs[1]).text(), "bf16[8, 6]");
  EXPECT_EQ(split_.graph.type(inputs[4]).text(), "i16[8, 6]");
  EXPECT_EQ(split_.graph.type(inputs[5]).text(), "i16[6, 5]");
  const Graph after = in_mixed_precision(split_.graph);
  EXPECT_GT(casts_of_input(in_mixed_precision(graph_), 1), 0);
  for (const size_t input : {1, 2}) EXPECT_EQ(casts_of_input(after, input), 0) << print_graph(after);

  const std::vector<HostTensor> expected = interpret(in_mixed_precision(graph_), inputs_, {}, Rounding::kRounded);
  const std::vector<HostTensor> actual = run_split();
  ASSERT_EQ(actual.size(), 4u);
  EXPECT_EQ(actual[0].values, expected[0].values);
  EXPECT_EQ(actual[1].values, expected[1].values);
  EXPECT_EQ(joined(actual[2], actual[3]).values, expected[2].values);
  EXPECT_NE(expected[2].values, expected[1].values);
}

TEST_F(SplitWeightsTest, EveryValueStaysAsItIs) {
  const float largest = std::numeric_limits<float>::max(), smallest = std::numeric_limits<float>::denorm_min();
  const float infinity = std::numeric_limits<float>::infinity();
  // Ties between two of bf16, the numbers beside them, and what rounds up to the next power of two or to infinity.
  const std::vector<float> special = {0.0f,        -0.0f,       smallest,       -smallest,  largest,       -largest,
                                      infinity,    -infinity,   0x1.01p0f,      -0x1.01p0f, 0x1.03p0f,     -0x1.03p0f,
                                      0x1.0102p0f, 0x1.00fep0f, 0x1.fffffep-3f, 0x1.ffp7f,  std::nanf(""), -1.0f};
  HostTensor& weight = inputs_[1];
  for (size_t i = 0; i < weight.values.size(); ++i) weight.values[i] = special[i % special.size()];
  for (double& value : inputs_[3].values) value = -0.0;  // which changes nothing
  const std::vector<HostTensor> actual = run_split();
  const std::vector<std::byte> expected = to_bytes(weight);
  EXPECT_EQ(to_bytes(actual[1]), expected);
  EXPECT_EQ(to_bytes(joined(actual[2], actual[3])), expected);
  // Halves are the same to the bit whoever splits.
  const std::vector<std::byte> halves = tensor::split_halves(expected);
  EXPECT_EQ(to_bytes(actual[2]),
            std::vector(halves.begin(), halves.begin() + static_cast<ptrdiff_t>(halves.size() / 2)));
  EXPECT_EQ(to_bytes(actual[3]), std::vector(halves.begin() + static_cast<ptrdiff_t>(halves.size() / 2), halves.end()));
}

TEST_F(SplitWeightsTest, GemmsInF32ReadBothHalves) {
  const SplitWeights split = split_weights(graph_, {false, true, true, false}, false);
  split.graph.verify("split_weights");
  const std::vector<HostTensor> expected = interpret(graph_, inputs_, {}, Rounding::kRounded);
  const std::vector<HostTensor> actual = interpret(split.graph, in_halves(split, inputs_), {}, Rounding::kRounded);
  EXPECT_EQ(actual[0].values, expected[0].values);
}

TEST_F(SplitWeightsTest, WhatIsNotSplitStays) {
  const SplitWeights split = split_weights(graph_, {false, false, false, false}, true);
  EXPECT_TRUE(split.lower.empty());
  EXPECT_EQ(print_graph(split.graph), print_graph(graph_));
}

}  // namespace
}  // namespace causeway::passes
