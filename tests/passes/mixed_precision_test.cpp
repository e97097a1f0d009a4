#include "causeway/passes/mixed_precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "causeway/graph/rewrite.h"
#include "causeway/passes/builder.h"
#include "causeway/passes/residual_stream.h"
#include "tests/fixtures/op_literal.h"
#include "tests/passes/same_values.h"
#include "tests/passes/small_model.h"

namespace causeway::passes {
namespace {

constexpr MixedPrecisionOptions kBF16Compute = {DType::kBF16, DType::kF32};

TEST(MixedPrecision, ComputesInTheNarrowTypeAndKeepsWeightGradientsWide) {
  const int64_t layers = 2;
  const SmallModel model = small_model(layers);
  const Graph graph = mixed_precision(model.graph, kBF16Compute);
  graph.verify("mixed_precision");
  const std::vector<bool> needed = needed_nodes(graph);
  int64_t wide_dots = 0, dots = 0;
  for (size_t i = 0; i < needed.size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (!needed[i] || op_info(node.op).kind != OpKind::kTemplate) continue;
    EXPECT_EQ(graph.dtype(node.inputs[0]), DType::kBF16) << op_name(node.op);
    EXPECT_EQ(graph.dtype(node.inputs[1]), DType::kBF16) << op_name(node.op);
    if (node.op == "attention_gradient"_op) EXPECT_EQ(graph.dtype(node.inputs[3]), DType::kBF16);
    if (node.op == "linear_cross_entropy"_op) {
      EXPECT_EQ(node.outputs[1].dtype, DType::kBF16);
      EXPECT_EQ(node.outputs[2].dtype, DType::kF32);
    }
    if (node.op != "dot"_op) continue;
    ++dots;
    if (node.outputs[0].dtype == DType::kF32) ++wide_dots;
  }
  // Three dots for each of seven matrices a layer. Wide are the weight gradients, and the three whose results reach
  // nothing but the embedding's gradient.
  EXPECT_EQ(dots, 3 * 7 * layers);
  EXPECT_EQ(wide_dots, 7 * layers + 3);
}

// As dots; offsets stay what they are.
TEST(MixedPrecision, GroupedDotsComputeInTheNarrowType) {
  Graph source;
  const Builder b(source);
  const Value rows = source.add_input("rows", {DType::kF32, {1, 30, 16}});
  const Value weights = source.add_input("weights", {DType::kF32, {8, 24, 16}});
  const Value offsets = source.add_input("offsets", {DType::kI32, {1, 9}});
  const Value hidden = b.grouped_dot(rows, weights, offsets, false, true, DType::kF32);
  source.outputs = {b.grouped_dot(b.tanh(hidden), weights, offsets, false, false, DType::kF32)};
  const Graph graph = mixed_precision(source, kBF16Compute);
  graph.verify("mixed_precision");
  std::vector<DType> results;
  for (const Node& node : graph.nodes()) {
    if (node.op != "grouped_dot"_op) continue;
    EXPECT_EQ(graph.dtype(node.inputs[0]), DType::kBF16);
    EXPECT_EQ(graph.dtype(node.inputs[1]), DType::kBF16);
    EXPECT_EQ(graph.dtype(node.inputs[2]), DType::kI32);
    results.push_back(node.outputs[0].dtype);
  }
  // The first feeds the second.
  EXPECT_EQ(results, (std::vector{DType::kBF16, DType::kF32}));
  EXPECT_EQ(graph.dtype(graph.outputs[0]), DType::kF32);
}

TEST(MixedPrecision, ChangesOnlyTheRounding) {
  const SmallModel model = small_model();
  for (const DType residual : {DType::kF32, DType::kBF16}) {
    const Graph graph = mixed_precision(model.graph, {DType::kBF16, residual});
    graph.verify("mixed_precision");
    expect_same_values(model.graph, graph, model.inputs, {}, bounds::kInterpreted);
    expect_rounded_values(model, graph, 3e-4, 0.03);
  }
}

TEST(MixedPrecision, StoresTheResidualStreamAsAsked) {
  const SmallModel model = small_model(3);
  const auto narrow_sums = [](const Graph& graph) {
    int64_t count = 0;
    for (const Node& node : graph.nodes())
      if (node.op == "cast"_op && node.outputs[0].dtype == DType::kBF16 && graph.node(node.inputs[0]).op == "add"_op &&
          !node.backward)
        ++count;
    return count;
  };
  // Two additions a layer.
  EXPECT_EQ(narrow_sums(mixed_precision(model.graph, kBF16Compute)), 0);
  EXPECT_EQ(narrow_sums(mixed_precision(model.graph, {DType::kBF16, DType::kBF16})), 2 * 3);
}

// Of x + 1, which a GEMM takes cast, the sum over rows; `also_in_f32`: and an output needs x + 1 as it is.
DType summed_type(bool also_in_f32, std::vector<int64_t> axes) {
  Graph graph;
  const Builder build(graph);
  const Value x = graph.add_input("x", {DType::kF32, {Dim(6), Dim(4)}});
  const Value weight = graph.add_input("weight", {DType::kF32, {Dim(4), Dim(4)}});
  const Value more = build.add(x, build.constant_like(x, 1));
  const Value product = build.dot(build.reshape(more, {Dim(6), Dim(4)}), weight, false, false, DType::kF32);
  graph.outputs = {build.reduce_sum(more, std::move(axes)), product};
  if (also_in_f32) graph.outputs.push_back(build.mul(more, more));
  const Graph narrow = mixed_precision(graph, kBF16Compute);
  narrow.verify("mixed_precision");
  const Node& sum = narrow.node(narrow.outputs[0]);
  EXPECT_EQ(sum.op, "reduce_sum"_op);
  EXPECT_EQ(sum.outputs[0].dtype, DType::kF32);
  const Node& summed = narrow.node(sum.inputs[0]);
  return summed.op == "cast"_op ? narrow.dtype(summed.inputs[0]) : narrow.dtype(sum.inputs[0]);
}

TEST(MixedPrecision, SumsOverRowsReadACastThatIsInMemoryBesideF32) {
  EXPECT_EQ(summed_type(true, {0}), DType::kBF16);
  // The sum is computed along with the cast.
  EXPECT_EQ(summed_type(false, {0}), DType::kF32);
  // A sum of each row, as in a norm or a softmax.
  EXPECT_EQ(summed_type(true, {1}), DType::kF32);
}

// The gradients of queries, keys and values side by side are bf16 before they are added up.
TEST(MixedPrecision, SumsOfJoinedGradientsReadTheCast) {
  Graph graph;
  const Builder build(graph);
  const auto input = [&](const char* name, Shape shape) {
    return graph.add_input(name, {DType::kF32, std::move(shape)});
  };
  const Shape heads = {Dim(2), Dim(6), Dim(3), Dim(8)}, statistics = {Dim(2), Dim(3), Dim(6)};
  const Value q = input("q", heads), k = input("k", heads), v = input("v", heads), dout = input("dout", heads);
  Attributes attributes;
  attributes.attention = std::make_shared<AttentionSpec>();
  const Value gradient = graph.add("attention_gradient"_op,
                                   {q, k, v, dout, input("lse", statistics), input("delta", statistics)}, attributes);
  Value joined;
  for (int i = 0; i < 3; ++i) {
    const Value columns = build.reshape({gradient.node, i}, {Dim(2), Dim(6), Dim(24)});
    const Value padded = build.pad(columns, {Dim(0), Dim(0), Dim(24 * i)}, {Dim(0), Dim(0), Dim(24 * (2 - i))}, 0);
    joined = i == 0 ? padded : build.add(joined, padded);
  }
  const Value product = build.dot(build.reshape(joined, {Dim(12), Dim(72)}), input("weight", {Dim(72), Dim(4)}), false,
                                  false, DType::kF32);
  graph.outputs = {build.reduce_sum(joined, {0, 1}), product};
  const Graph narrow = mixed_precision(graph, kBF16Compute);
  narrow.verify("mixed_precision");
  const Node& summed = narrow.node(narrow.node(narrow.outputs[0]).inputs[0]);
  ASSERT_EQ(summed.op, "cast"_op);
  EXPECT_EQ(narrow.dtype(summed.inputs[0]), DType::kBF16);
}

TEST(MixedPrecision, FindsTheResidualStream) {
  const SmallModel model = small_model(3);
  const std::vector<bool> found = residual_additions(model.graph);
  int64_t forward = 0, backward = 0, update = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    if (!found[i]) continue;
    const Node& node = model.graph.nodes()[i];
    ++(node.backward ? backward : node.scope.empty() ? update : forward);
  }
  EXPECT_EQ(forward, 2 * 3);
  EXPECT_GE(backward, 2 * 3);
  EXPECT_EQ(update, 0);
}

TEST(MixedPrecision, KeepsValuesOfRandomGraphs) {
  expect_same_values_on_random_graphs([](const Graph& graph) { return mixed_precision(graph, kBF16Compute); });
}

TEST(MixedPrecision, RefusesOtherTypes) {
  using testing::HasSubstr;
  const Graph graph;
  EXPECT_THAT([&] { mixed_precision(graph, {DType::kI32, DType::kF32}); },
              testing::ThrowsMessage<Error>(HasSubstr("cannot compute in i32")));
  EXPECT_THAT([&] { mixed_precision(graph, {DType::kBF16, DType::kF16}); },
              testing::ThrowsMessage<Error>(HasSubstr("cannot be stored in f16 when computing in bf16")));
}

}  // namespace
}  // namespace causeway::passes
