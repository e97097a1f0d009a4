#include "causeway/passes/count_flops.h"

#include <gtest/gtest.h>

#include "causeway/passes/recompute.h"
#include "tests/passes/small_model.h"

namespace causeway {
namespace {

TEST(CountFlops, AttendedPairs) {
  AttentionSpec spec;
  EXPECT_EQ(count_attended_pairs(spec, 2, 3, 5, 7), 2 * 3 * 5 * 7);
  spec.mask = causal_mask();
  EXPECT_EQ(count_attended_pairs(spec, 2, 3, 5, 5), 2 * 3 * 15);
  EXPECT_EQ(count_attended_pairs(spec, 1, 1, 1000, 1000), 500500);
  // Beyond a million pairs rows are sampled.
  EXPECT_NEAR(count_attended_pairs(spec, 1, 4, 4096, 4096), 4 * 4096.0 * 4097 / 2, 1e-3 * 4 * 4096 * 4096 / 2);
  // Head h sees 2 * (h + 1) keys back: 1 + 2 + 2 + 2 and 1 + 2 + 3 + 4.
  spec.mask = window_mask_by_head(2);
  EXPECT_EQ(count_attended_pairs(spec, 3, 2, 4, 4), 3 * (7 + 10));
}

TEST(CountFlops, OfDotsWithSymbols) {
  Graph graph;
  const Dim tokens = Dim::symbol("B") * Dim::symbol("T");
  const Builder b(graph);
  const Value x = graph.add_input("x", {DType::kF32, {3, 16, tokens}});
  const Value w = graph.add_input("w", {DType::kF32, {3, 16, 8}});
  graph.outputs = {b.dot(x, w, true, false, DType::kF32)};
  b.dot(x, w, true, false, DType::kF32);  // not needed by anything
  const FlopCount count = count_flops(graph, {.bindings = {{Dim::symbol_id("B"), 2}, {Dim::symbol_id("T"), 10}}});
  EXPECT_EQ(count.forward, 2.0 * 3 * 20 * 16 * 8);
  EXPECT_EQ(count.backward, 0);
}

TEST(CountFlops, OfATrainingStep) {
  const int64_t layers = 2, width = 8, length = 6, vocabulary = 11, tokens = 2 * length;
  const SmallModel model = small_model(layers, width, length, vocabulary);
  const FlopCount count = count_flops(model.graph, {});
  const double matrices = static_cast<double>(layers * (4 * width * width + 3 * 4 * width * width));
  const double head = static_cast<double>(vocabulary * width);
  const double pairs = static_cast<double>(layers * 2 * 2 * length * (length + 1) / 2);
  EXPECT_EQ(count.forward, 2.0 * tokens * (matrices + head) + 4 * pairs * (width / 2));
  EXPECT_EQ(count.backward, 4.0 * tokens * (matrices + head) + 10 * pairs * (width / 2));
  EXPECT_EQ(count.attended_pairs, pairs);
  EXPECT_EQ(count.attention_pairs, static_cast<double>(layers * 2 * 2 * length * length));
  EXPECT_FALSE(count.density_assumed);
  // Recomputing costs the device, not the model.
  EXPECT_GT(count_flops(recompute(model.graph, RecomputePolicy::kBlock), {}).total(), count.total());
}

TEST(CountFlops, SaysWhenTheDensityIsAssumed) {
  ScalarFunction f = scalar_function(false);
  const Value documents = f.graph.add_input("documents", {DType::kI32, {4}});
  const Builder scalar(f.graph);
  const Value same = scalar.equal(scalar.gather(documents, f.in[2], 0), scalar.gather(documents, f.in[3], 0));
  auto spec = std::make_shared<AttentionSpec>();
  spec->mask = finish(f, same);
  EXPECT_LT(count_attended_pairs(*spec, 1, 1, 4, 4), 0);

  Graph graph;
  std::vector<Value> inputs;
  for (const char* name : {"q", "k", "v"}) inputs.push_back(graph.add_input(name, {DType::kF32, {1, 4, 1, 8}}));
  inputs.push_back(graph.add_input("documents", {DType::kI32, {4}}));
  Attributes attributes;
  attributes.attention = spec;
  graph.outputs = {graph.add(Op::kAttention, inputs, attributes)};
  const FlopCount count = count_flops(graph, {.bindings = {}, .captured_mask_density = 0.25});
  EXPECT_TRUE(count.density_assumed);
  EXPECT_EQ(count.forward, 4 * (16 * 0.25) * 8);
}

}  // namespace
}  // namespace causeway
