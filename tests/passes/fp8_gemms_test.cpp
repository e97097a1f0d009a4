#include "causeway/passes/fp8_gemms.h"

#include <gtest/gtest.h>

#include <cmath>

#include "causeway/device/preferred_sizes.h"
#include "causeway/graph/parser.h"
#include "causeway/graph/printer.h"
#include "causeway/graph/rewrite.h"
#include "causeway/passes/mixed_precision.h"
#include "tests/fixtures/op_literal.h"
#include "tests/passes/same_values.h"
#include "tests/passes/small_model.h"

namespace causeway::passes {
namespace {

constexpr PreferredSizes kNoBlocks = {.f8_multiple = 16}, kBlocks = {.f8_multiple = 16, .f8_blocks = true};

Graph narrowed(const SmallModel& model, Fp8Scales scales = Fp8Scales::kTensor,
               const PreferredSizes& sizes = kNoBlocks) {
  const Graph graph = fp8_gemms(mixed_precision(model.graph, {DType::kBF16, DType::kF32}), scales, sizes);
  graph.verify("fp8_gemms");
  return graph;
}

TEST(Fp8Gemms, GradientsHaveTheWiderRange) {
  const int64_t layers = 2;
  const SmallModel model = small_model(layers, 32, 16, 64);
  const Graph graph = narrowed(model);
  const std::vector<bool> needed = needed_nodes(graph);
  int64_t forward = 0, backward = 0;
  for (size_t i = 0; i < needed.size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (!needed[i] || node.op != "dot"_op) continue;
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

TEST(Fp8Gemms, ChangesOnlyTheRounding) {
  const SmallModel model = small_model(2, 32, 16, 64);
  const Graph graph = narrowed(model);
  expect_same_values(model.graph, graph, model.inputs, {}, bounds::kInterpreted);
  expect_rounded_values(model, graph, 3e-3, 0.3);
}

// Of what norms and their gradients give, row by row; of weights and what else GEMMs give, at once.
TEST(Fp8Gemms, LargestMagnitudesAreFoundWhereRowsAreSummedUp) {
  const SmallModel model = small_model(2, 32, 16, 64);
  const Graph graph = narrowed(model);
  const std::vector<bool> needed = needed_nodes(graph);
  int of_rows = 0, of_all = 0;
  for (size_t i = 0; i < needed.size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (!needed[i] || node.op != "reduce_max"_op || !node.outputs[0].shape.empty()) continue;
    ++(graph.node(node.inputs[0]).op == "reduce_max"_op ? of_rows : of_all);
  }
  // At least a layer's two norms, and as many of their gradients; a layer's seven weights.
  EXPECT_GE(of_rows, 8);
  EXPECT_GE(of_all, 14);
}

TEST(Fp8Gemms, BlocksHaveScalesOfTheirOwn) {
  const int64_t layers = 2;
  const SmallModel model = small_model(layers, 128, 128, 256);
  const Graph graph = narrowed(model, Fp8Scales::kBlock, kBlocks);
  int64_t forward = 0, backward = 0;
  const std::vector<bool> needed = needed_nodes(graph);
  for (size_t i = 0; i < needed.size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (!needed[i]) continue;
    if (node.op != "scaled_dot"_op) continue;
    ++(node.backward ? backward : forward);
    const auto shares = [&](size_t operand) {
      return graph.shape(node.inputs[operand + 2])[1] != graph.shape(node.inputs[operand])[0];
    };
    EXPECT_FALSE(shares(0));
    EXPECT_TRUE(shares(1));
    for (size_t operand = 0; operand < 2; ++operand) EXPECT_EQ(graph.dtype(node.inputs[operand]), DType::kF8E4M3);
  }
  EXPECT_EQ(forward, 7 * layers);
  EXPECT_EQ(backward, 2 * 7 * layers);
  expect_same_values(model.graph, graph, model.inputs, {}, bounds::kInterpreted);
  expect_rounded_values(model, graph, 3e-3, 0.65);
}

// Numbers with scales of their own are as exact in bf16: both ways to multiply them round alike.
TEST(Fp8Gemms, BlocksWithoutKernelsAreTheSameNumbersInBf16) {
  const SmallModel model = small_model(1, 128, 128, 256);
  const Graph blocks = narrowed(model, Fp8Scales::kBlock, kBlocks),
              wide = narrowed(model, Fp8Scales::kBlock, kNoBlocks);
  for (const Node& node : wide.nodes()) EXPECT_NE(node.op, "scaled_dot"_op);
  const auto values = [&](const Graph& graph) { return interpret(graph, model.inputs, {}, Rounding::kRounded); };
  const std::vector<HostTensor> expected = values(blocks), actual = values(wide);
  ASSERT_EQ(actual.size(), expected.size());
  const Comparison comparison = compare(actual[0], expected[0], bounds::kInterpreted);
  EXPECT_TRUE(comparison.equal) << comparison.text;
}

// Numbers of a token that are large beside the others' leave those with few bits where all share a scale.
TEST(Fp8Gemms, ALargeTokenCostsOthersNoBitsWithScalesOfBlocks) {
  const Graph graph = parse_graph(R"(%0 = input "x" : f32[128, 128]
%1 = add(%0, %0) : f32[128, 128]
%2 = cast(%1) : bf16[128, 128]
%3 = input "weight" : bf16[128, 128]
%4 = dot(%2, %3) {dtype=f32} : f32[128, 128]
return %4)");
  std::vector<HostTensor> inputs = {random_host_tensor(DType::kF32, {128, 128}, 1, -1, 1),
                                    random_host_tensor(DType::kBF16, {128, 128}, 2, -1, 1)};
  for (size_t i = 0; i < 128; ++i) inputs[0].values[i] *= 0x1p18;
  const std::vector<double> exact = interpret(graph, inputs)[0].values;
  const auto error = [&](Fp8Scales scales) {
    const Graph narrow = fp8_gemms(graph, scales, kBlocks);
    const std::vector<double> values = interpret(narrow, inputs, {}, Rounding::kRounded)[0].values;
    double difference = 0, norm = 0;
    for (size_t i = 128; i < values.size(); ++i) {
      difference += std::pow(values[i] - exact[i], 2);
      norm += std::pow(exact[i], 2);
    }
    return std::sqrt(difference / norm);
  };
  EXPECT_LT(error(Fp8Scales::kBlock), 0.05);
  EXPECT_GT(error(Fp8Scales::kTensor), 0.5);
}

TEST(Fp8Gemms, MatricesWithoutWholeBlocksHaveOneScale) {
  const SmallModel model = small_model(1, 32, 16, 64);
  EXPECT_EQ(print_graph(narrowed(model, Fp8Scales::kBlock, kBlocks)), print_graph(narrowed(model)));
}

TEST(Fp8Gemms, LeavesOtherSizesAlone) {
  const SmallModel model = small_model(1, 24, 16, 64);
  const Graph graph = narrowed(model);
  for (const Node& node : graph.nodes())
    for (const TensorType& type : node.outputs)
      EXPECT_TRUE(type.dtype != DType::kF8E4M3 && type.dtype != DType::kF8E5M2);
}

TEST(Fp8Gemms, LeavesGroupsOfRowsInBf16) {
  Graph source;
  const Builder b(source);
  const Value rows = source.add_input("rows", {DType::kBF16, {1, 128, 128}});
  const Value weights = source.add_input("weights", {DType::kBF16, {2, 128, 128}});
  const Value offsets = source.add_input("offsets", {DType::kI32, {1, 3}});
  source.outputs = {b.grouped_dot(rows, weights, offsets, false, true, DType::kBF16)};
  for (const Fp8Scales scales : {Fp8Scales::kTensor, Fp8Scales::kBlock})
    EXPECT_TRUE(structurally_equal(fp8_gemms(source, scales, kBlocks), source));
}

TEST(Fp8Gemms, TensorsOfZerosStayZero) {
  SmallModel model = small_model(1, 32, 16, 64);
  for (HostTensor& input : model.inputs)
    if (input.shape.size() == 2) std::fill(input.values.begin(), input.values.end(), 0.0);
  for (const HostTensor& value : interpret(narrowed(model), model.inputs, {}, Rounding::kRounded))
    for (const double number : value.values) EXPECT_TRUE(std::isfinite(number));
}

}  // namespace
}  // namespace causeway::passes
