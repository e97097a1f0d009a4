#include "causeway/bench/train_benchmark.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "causeway/bench/report/shipped_text.h"
#include "causeway/bench/statistics.h"
#include "causeway/tensor/runtime.h"
#include "causeway/train/recipe.h"

namespace causeway {
namespace {

// Published for Llama 3 8B with sequences of 8,192: 57.9 GFLOP a token with all pairs, 51.5 with half of them.
TEST(FlopConventions, OfLlama8BAreThePublishedOnes) {
  const Recipe recipe = parse_recipe(std::string(shipped_benchmark_text("recipes/llama3_8b.yaml")), "llama3_8b", {});
  const FlopConventions flops = flop_conventions(recipe.model, 8192, 0.5);
  EXPECT_NEAR(flops.full / 1e9, 57.9, 0.05);
  EXPECT_NEAR(flops.causal / 1e9, 51.5, 0.05);
}

TEST(FlopConventions, ATiedEmbeddingMultiplies) {
  const Recipe recipe = parse_recipe(std::string(shipped_benchmark_text("recipes/gpt2_124m.yaml")), "gpt2_124m", {});
  const auto parameters = static_cast<double>(parameter_count(recipe.model));
  EXPECT_DOUBLE_EQ(flop_conventions(recipe.model, 1024, 0).causal, 6 * parameters);
}

TEST(TrainBenchmark, EveryCaseHasAShippedRecipe) {
  for (const TrainCase& one : standard_train_cases(Runtime::current().device()))
    EXPECT_FALSE(shipped_benchmark_text("recipes/" + one.recipe + ".yaml").empty()) << one.recipe;
}

TEST(TrainBenchmark, MeasuresASmallModel) {
  const TrainCase small = {
      "tiny",
      "shakespeare",
      {"model.layers=1", "model.width=32", "model.heads=2", "model.ffn_width=64", "data.sequence_length=16"},
      2,
      "bf16"};
  std::vector<std::string> skipped;
  const auto telemetry = open_telemetry("cpu");
  const std::optional<Measurement> m =
      run_train(Runtime::current().device(), small, {.steps = 20}, std::nullopt, *telemetry, skipped);
  ASSERT_TRUE(m.has_value()) << testing::PrintToString(skipped);
  EXPECT_TRUE(m->correct) << m->check;
  EXPECT_EQ(m->work, 2 * 16);
  EXPECT_EQ(m->unit, "tokens/s");
  EXPECT_EQ(m->rounds.size(), 10u);
  EXPECT_EQ(summarize(*m).samples, 20u);
  EXPECT_EQ(m->details.at("MFU"), "n/a: the device's peak is not known");
  EXPECT_THAT(m->details.at("FLOP per token, torchtitan"), testing::HasSubstr("all pairs"));
}

}  // namespace
}  // namespace causeway
