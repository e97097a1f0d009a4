#include "causeway/passes/count_flops.h"

#include <gtest/gtest.h>

#include "causeway/device/preferred_sizes.h"
#include "causeway/passes/pipeline.h"
#include "causeway/passes/recompute.h"
#include "tests/fixtures/op_literal.h"
#include "tests/passes/small_model.h"

namespace causeway::passes {
namespace {

TEST(CountFlops, OfDotsWithSymbols) {
  Graph graph;
  const Dim tokens = Dim::symbol("B") * Dim::symbol("T");
  const Builder b(graph);
  const Value x = graph.add_input("x", {DType::kF32, {3, 16, tokens}});
  const Value w = graph.add_input("w", {DType::kF32, {3, 16, 8}});
  graph.outputs = {b.dot(x, w, true, false, DType::kF32)};
  b.dot(x, w, true, false, DType::kF32);  // not needed by anything
  const FlopCount count = count_flops(graph, {{Dim::symbol_id("B"), 2}, {Dim::symbol_id("T"), 10}});
  EXPECT_EQ(count.forward, 2.0 * 3 * 20 * 16 * 8);
  EXPECT_EQ(count.backward, 0);
}

// Every row meets one matrix, whosever it is: experts of which a token chooses two do the work of two.
TEST(CountFlops, OfGroupsAreThoseOfTheRows) {
  Graph graph;
  const Builder b(graph);
  const Value rows = graph.add_input("rows", {DType::kF32, {2, 30, 16}});
  const Value weights = graph.add_input("weights", {DType::kF32, {8, 24, 16}});
  const Value offsets = graph.add_input("offsets", {DType::kI32, {2, 9}});
  const Value result = b.grouped_dot(rows, weights, offsets, false, true, DType::kF32);
  graph.outputs = {result};
  EXPECT_EQ(count_flops(graph, {}).forward, 2.0 * 60 * 16 * 24);
  graph.outputs = {b.grouped_dot(result, rows, offsets, true, false, DType::kF32)};
  EXPECT_EQ(count_flops(graph, {}).forward, 2 * 2.0 * 60 * 16 * 24);
}

TEST(CountFlops, OfATrainingStep) {
  const int64_t layers = 2, width = 8, length = 6, vocabulary = 11, tokens = 2 * length;
  const SmallModel model = small_model(layers, width, length, vocabulary);
  const FlopCount count = count_flops(model.graph);
  const double matrices = static_cast<double>(layers * (4 * width * width + 3 * 4 * width * width));
  const double head = static_cast<double>(vocabulary * width);
  const double pairs = static_cast<double>(layers * 2 * 2 * length * (length + 1)) / 2;
  EXPECT_EQ(count.forward, 2.0 * tokens * (matrices + head) + 4 * pairs * static_cast<double>(width) / 2);
  EXPECT_EQ(count.backward, 4.0 * tokens * (matrices + head) + 10 * pairs * static_cast<double>(width) / 2);
  EXPECT_EQ(count.attended_pairs, pairs);
  EXPECT_EQ(count.attention_pairs, static_cast<double>(layers * 2 * 2 * length * length));
  EXPECT_FALSE(count.at_most);
  EXPECT_EQ(density_text(count), "0.5833 of all pairs");
  EXPECT_EQ(count.by_operand, (std::map<std::string, double>{{"f32", count.total()}}));
  EXPECT_EQ(count.scaled(3).total(), 3 * count.total());
  EXPECT_EQ(count.scaled(3).density(), count.density());
  // Recomputing costs the device, not the model.
  EXPECT_GT(count_flops(recompute(model.graph, {RecomputePolicy::kBlock})).total(), count.total());
}

// GEMMs of bf16 and of 8 bits apart from those that stay as they were.
TEST(CountFlops, ByOperand) {
  const SmallModel model = small_model(1, 32, 16, 48);
  PipelineOptions options;
  options.tf32_gemms = true;
  const FlopCount tf32 = count_flops(run_pipeline(model.graph, options, preferred_sizes_of_processors()));
  EXPECT_EQ(tf32.by_operand, (std::map<std::string, double>{{"tf32", tf32.total()}}));
  options = {};
  options.mixed_precision.compute = DType::kBF16;
  const FlopCount bf16 = count_flops(run_pipeline(model.graph, options, preferred_sizes_of_processors()));
  EXPECT_EQ(bf16.by_operand, (std::map<std::string, double>{{"bf16", bf16.total()}}));
  options.fp8_gemms = Fp8Scales::kTensor;
  const FlopCount fp8 = count_flops(run_pipeline(model.graph, options, preferred_sizes_of_processors()));
  EXPECT_GT(fp8.by_operand.at("fp8"), 0);
  EXPECT_GT(fp8.by_operand.at("bf16"), 14 * fp8.attended_pairs * 16);  // attention and the output layer
  EXPECT_EQ(fp8.by_operand.at("fp8") + fp8.by_operand.at("bf16"), fp8.total());
}

TEST(CountFlops, OfAMaskThatDataDecidesAreAtMostThoseOfTheRest) {
  const auto flops = [](bool causal, bool documents) {
    ScalarFunction f = scalar_function(false);
    const Value ids = f.graph.add_input("documents", {DType::kI32, {4}});
    const Builder scalar(f.graph);
    Value mask = scalar.constant(DType::kBool, {}, 1);
    if (causal) mask = f.graph.add("and"_op, {mask, scalar.less_equal(f.in[3], f.in[2])});
    if (documents) {
      const Value same = scalar.equal(scalar.gather(ids, f.in[2], 0), scalar.gather(ids, f.in[3], 0));
      mask = f.graph.add("and"_op, {mask, same});
    }
    auto spec = std::make_shared<AttentionSpec>();
    spec->mask = finish(f, mask);
    Graph graph;
    std::vector<Value> inputs;
    for (const char* name : {"q", "k", "v"}) inputs.push_back(graph.add_input(name, {DType::kF32, {1, 4, 1, 8}}));
    inputs.push_back(graph.add_input("documents", {DType::kI32, {4}}));
    Attributes attributes;
    attributes.attention = spec;
    graph.outputs = {graph.add("attention"_op, inputs, attributes)};
    return count_flops(graph);
  };
  EXPECT_EQ(flops(false, false).forward, 4 * 16 * 8);
  EXPECT_EQ(flops(true, false).forward, 4 * 10 * 8);
  EXPECT_FALSE(flops(true, false).at_most);
  EXPECT_EQ(flops(false, true).forward, 4 * 16 * 8);
  EXPECT_EQ(density_text(flops(false, true)), "at most 1 of all pairs (data decides)");
  EXPECT_EQ(flops(true, true).forward, 4 * 10 * 8);
  EXPECT_TRUE(flops(true, true).at_most);
  EXPECT_EQ(density_text(flops(true, true)), "at most 0.625 of all pairs (data decides)");
}

}  // namespace
}  // namespace causeway::passes
