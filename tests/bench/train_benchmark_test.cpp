#include "causeway/bench/train_benchmark.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "causeway/base/error.h"
#include "causeway/bench/report/shipped_text.h"
#include "causeway/bench/statistics.h"
#include "causeway/device/open_device.h"
#include "causeway/tensor/runtime.h"
#include "causeway/train/recipe/recipe.h"

namespace causeway::bench {
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
  std::unique_ptr<LanguageModel> model;
  const auto telemetry = open_telemetry("cpu");
  const std::optional<Measurement> m =
      run_train(Runtime::current().device(), small, {.steps = 20}, std::nullopt, *telemetry, model, skipped);
  ASSERT_TRUE(m.has_value()) << testing::PrintToString(skipped);
  EXPECT_TRUE(m->correct) << m->check;
  EXPECT_EQ(m->work, 2 * 16);
  EXPECT_EQ(m->unit, "tokens/s");
  EXPECT_EQ(m->rounds.size(), 10u);
  EXPECT_EQ(summarize(*m).samples, 20u);
  const LanguageModel* const first = model.get();
  TrainCase narrower = small;
  narrower.precision = "f32";
  EXPECT_TRUE(
      run_train(Runtime::current().device(), narrower, {.steps = 10}, std::nullopt, *telemetry, model, skipped));
  EXPECT_EQ(model.get(), first);  // its weights are not drawn again
  EXPECT_EQ(m->details.at("MFU"), "n/a: the device's peak is not known");
  EXPECT_THAT(m->details.at("FLOP per token, torchtitan"), testing::HasSubstr("all pairs"));
}

// Tells joules that grow by what each moment is said to use.
class CountingTelemetry : public TelemetryReader {
 protected:
  Telemetry sample() override { return {}; }
  std::optional<double> sample_energy() override { return joules_ += 640; }
  std::string explain_absence() override { return {}; }

 private:
  double joules_ = 0;
};

TEST(TrainBenchmark, EnergyIsToldByTokenAndStep) {
  const TrainCase small = {
      "tiny",
      "shakespeare",
      {"model.layers=1", "model.width=32", "model.heads=2", "model.ffn_width=64", "data.sequence_length=16"},
      2,
      "f32"};
  std::vector<std::string> skipped;
  std::unique_ptr<LanguageModel> model;
  CountingTelemetry telemetry;
  const std::optional<Measurement> m =
      run_train(Runtime::current().device(), small, {.steps = 10}, std::nullopt, telemetry, model, skipped);
  ASSERT_TRUE(m.has_value()) << testing::PrintToString(skipped);
  EXPECT_EQ(m->details.at("J per step"), "64");
  EXPECT_EQ(m->details.at("J per token"), "2");
  EXPECT_THAT(train_figures(*m), testing::HasSubstr("energy: 2 J per token, 64 J per step"));
  EXPECT_THAT(train_figures(*m), testing::HasSubstr("MFU: n/a"));
}

TEST(TrainBenchmark, CasesAreChosen) {
  Runtime::use_device("cpu");
  const Device& processor = Runtime::current().device();
  std::vector<std::string> skipped;
  EXPECT_EQ(choose_train_cases({}, processor, skipped).size(), standard_train_cases(processor).size());
  const std::vector<TrainCase> cases =
      choose_train_cases({{"shakespeare"}, {"bf16", "f32", "fp8"}, 3}, processor, skipped);
  ASSERT_EQ(cases.size(), 2u);
  EXPECT_EQ(cases[1].precision, "f32");
  EXPECT_EQ(cases[1].micro_batch, 3);
  EXPECT_TRUE(cases[1].exact_batch);
  EXPECT_THAT(skipped, testing::ElementsAre(testing::HasSubstr("training in fp8: cpu has no instructions")));

  // Hopper multiplies 8-bit floats.
  const std::shared_ptr<Device> gpu = open_device("emulator:sm_90a");
  skipped.clear();
  EXPECT_EQ(choose_train_cases({{"gpt2_1.5b"}, {"fp8"}, {}}, *gpu, skipped).size(), 1u);
  EXPECT_TRUE(skipped.empty());

  const auto message = [&](const TrainChoice& choice) -> std::string {
    try {
      choose_train_cases(choice, processor, skipped);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(message({{"gpt2_124"}, {}, {}}), testing::HasSubstr("Did you mean 'gpt2_124m'?"));
  EXPECT_THAT(message({{}, {"fp16"}, {}}), testing::HasSubstr("Did you mean 'bf16'?"));
  EXPECT_THAT(message({{}, {}, 0}), testing::HasSubstr("a micro-batch of 0"));
}

TEST(TrainBenchmark, ABatchThatCannotFitIsLeftOutWithoutCompilingIt) {
  const TrainCase huge = {"GPT-2 124M", "gpt2_124m", {}, 1 << 20, "bf16", true};
  std::vector<std::string> skipped;
  std::unique_ptr<LanguageModel> model;
  const auto telemetry = open_telemetry("cpu");
  EXPECT_FALSE(run_train(Runtime::current().device(), huge, {}, std::nullopt, *telemetry, model, skipped).has_value());
  EXPECT_THAT(skipped, testing::ElementsAre(testing::HasSubstr("with a micro-batch of 1048576, and there are")));
}

}  // namespace
}  // namespace causeway::bench
