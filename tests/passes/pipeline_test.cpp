#include "causeway/passes/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "causeway/device/preferred_sizes.h"
#include "causeway/passes/recompute.h"
#include "tests/fixtures/op_literal.h"
#include "tests/passes/same_values.h"
#include "tests/passes/small_model.h"

namespace causeway::passes {
namespace {

TEST(Pipeline, KeepsATrainingStep) {
  const SmallModel model = small_model();
  for (const RecomputePolicy policy : {RecomputePolicy::kNone, RecomputePolicy::kSelective, RecomputePolicy::kBlock}) {
    for (const DType compute : {DType::kF32, DType::kBF16}) {
      SCOPED_TRACE(fmt::format("{} {}", recompute_policy_name(policy), dtype_name(compute)));
      PipelineOptions options;
      options.recompute.policy = policy;
      options.mixed_precision.compute = compute;
      const Graph graph = run_pipeline(model.graph, options, {.logits_bytes = 11 * 4 * 5, .logits_rows = 1});
      // Folded constants are rounded to f32; nothing else may change.
      expect_same_values(model.graph, graph, model.inputs, {}, bounds::sum(1));
      EXPECT_TRUE(std::none_of(graph.nodes().begin(), graph.nodes().end(),
                               [](const Node& node) { return node.op == "linear_cross_entropy"_op; }));
    }
  }
}

TEST(Pipeline, Trains) {
  const SmallModel model = small_model(2, 8, 12);
  PipelineOptions options;
  options.mixed_precision.compute = DType::kBF16;
  options.recompute.policy = RecomputePolicy::kSelective;
  const Graph graph = run_pipeline(model.graph, options, preferred_sizes_of_processors());
  std::vector<HostTensor> inputs = model.inputs;
  std::vector<double> losses;
  for (int step = 0; step < 120; ++step) {
    const std::vector<HostTensor> results = interpret(graph, inputs, {}, Rounding::kRounded);
    losses.push_back(results[0].values[0]);
    for (size_t i = 0; i < graph.assignments.size(); ++i)
      for (size_t k = 0; k < graph.inputs().size(); ++k)
        if (graph.inputs()[k] == graph.assignments[i].target) inputs[k] = results[1 + i];
  }
  EXPECT_LT(losses.back(), 0.7 * losses.front()) << fmt::format("{} -> {}", losses.front(), losses.back());
}

TEST(Pipeline, RecordsWhatEachPassDid) {
  const SmallModel model = small_model();
  PipelineOptions options;
  options.mixed_precision.compute = DType::kBF16;
  options.recompute.policy = RecomputePolicy::kBlock;
  PipelineTrace trace;
  trace.with_text = true;
  const Graph graph = run_pipeline(model.graph, options, preferred_sizes_of_processors(), {}, &trace);
  std::vector<std::string> names;
  size_t nodes = model.graph.nodes().size();
  for (const PassRecord& record : trace.records) {
    names.push_back(record.name);
    EXPECT_EQ(record.nodes_before, nodes);
    EXPECT_GE(record.milliseconds, 0);
    EXPECT_THAT(record.text, testing::HasSubstr("input \"tokens\""));
    nodes = record.nodes_after;
  }
  EXPECT_EQ(nodes, graph.nodes().size());
  EXPECT_EQ(trace.records.back().text, print_graph(graph));
  EXPECT_THAT(names, testing::ElementsAre("eliminate_common_subexpressions", "eliminate_dead_code", "canonicalize",
                                          "eliminate_common_subexpressions", "mixed_precision", "canonicalize",
                                          "eliminate_common_subexpressions", "normalized_values", "recompute",
                                          "decode_weights_at_use", "expand_linear_cross_entropy", "canonicalize"));
}

// Each of the sizes that are the device's to say reaches its pass.
TEST(Pipeline, TakesTheSizesThatTheDevicePrefers) {
  const SmallModel model = small_model(1, 32, 16, 48);
  const auto dots = [&](const PipelineOptions& options, const PreferredSizes& sizes) {
    const Graph graph = run_pipeline(model.graph, options, sizes);
    std::multiset<std::string> types;
    for (const Node& node : graph.nodes())
      if (node.op == "dot"_op)
        types.insert(graph.type(node.inputs[0]).text() + " " + graph.type(node.inputs[1]).text());
    return types;
  };
  const auto has = [](const std::multiset<std::string>& types, const std::string& part) {
    return std::any_of(types.begin(), types.end(),
                       [&](const std::string& type) { return type.find(part) != std::string::npos; });
  };
  const PreferredSizes plain = preferred_sizes_of_processors();
  PreferredSizes padded = plain, odd = plain;
  padded.vocabulary_multiple = 40;
  odd.f8_multiple = 5;
  EXPECT_TRUE(has(dots({}, plain), "f32[48, 32]"));
  EXPECT_TRUE(has(dots({}, padded), "f32[80, 32]")) << "48 rows of the vocabulary, padded";
  EXPECT_GT(dots({}, {.logits_bytes = 48 * 4 * 3, .logits_rows = 1}).size(), dots({}, plain).size())
      << "three tokens a chunk";
  PipelineOptions fp8;
  fp8.mixed_precision.compute = DType::kBF16;
  fp8.fp8_gemms = Fp8Scales::kTensor;
  EXPECT_TRUE(has(dots(fp8, plain), "f8e4m3"));
  EXPECT_FALSE(has(dots(fp8, odd), "f8"));
}

TEST(Pipeline, KeepsRandomGraphs) {
  expect_same_values_on_random_graphs(
      [](const Graph& graph) { return run_pipeline(graph, {}, preferred_sizes_of_processors()); }, 100);
}

}  // namespace
}  // namespace causeway::passes
