#include "causeway/bench/train_benchmark.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "causeway/base/error.h"
#include "causeway/bench/gradient_agreement.h"
#include "causeway/bench/report/shipped_text.h"
#include "causeway/bench/statistics.h"
#include "causeway/device/open_device.h"
#include "causeway/model/experts.h"
#include "causeway/program/context.h"
#include "causeway/train/recipe/recipe.h"
#include "tests/train/training_ranks.h"

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

TEST(FlopConventions, OfExpertsAreThoseThatATokenGoesThrough) {
  const Recipe recipe = parse_recipe(std::string(shipped_benchmark_text("recipes/mixtral_8x7b.yaml")), "mixtral", {});
  const auto active = static_cast<double>(active_parameter_count(recipe.model));
  const auto embedding = static_cast<double>(recipe.model.vocabulary_size * recipe.model.width);
  EXPECT_NEAR(active / 1e9, 12.9, 0.05);
  EXPECT_DOUBLE_EQ(flop_conventions(recipe.model, 4096, 0).causal, 6 * (active - embedding));
}

TEST(TrainBenchmark, EveryCaseHasAShippedRecipe) {
  for (const TrainCase& one : standard_train_cases(Context::current()->device()))
    EXPECT_FALSE(shipped_benchmark_text("recipes/" + one.recipe + ".yaml").empty()) << one.recipe;
}

TrainCase tiny_model(const std::string& precision) {
  return {"tiny",
          "shakespeare",
          {"model.layers=1", "model.width=32", "model.heads=2", "model.ffn_width=64", "data.sequence_length=16"},
          2,
          precision};
}

TEST(TrainBenchmark, MeasuresASmallModel) {
  const TrainCase small = tiny_model("bf16");
  std::vector<std::string> skipped;
  std::unique_ptr<LanguageModel> model;
  const auto telemetry = open_telemetry("cpu");
  const std::optional<Measurement> m =
      run_train(Context::current()->device(), small, {.steps = 20}, std::nullopt, *telemetry, model, skipped);
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
      run_train(Context::current()->device(), narrower, {.steps = 10}, std::nullopt, *telemetry, model, skipped));
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
  const TrainCase small = tiny_model("f32");
  std::vector<std::string> skipped;
  std::unique_ptr<LanguageModel> model;
  CountingTelemetry telemetry;
  const std::optional<Measurement> m =
      run_train(Context::current()->device(), small, {.steps = 10}, std::nullopt, telemetry, model, skipped);
  ASSERT_TRUE(m.has_value()) << testing::PrintToString(skipped);
  EXPECT_EQ(m->details.at("J per step"), "64");
  EXPECT_EQ(m->details.at("J per token"), "2");
  EXPECT_THAT(train_figures(*m), testing::HasSubstr("energy: 2 J per token, 64 J per step"));
  EXPECT_THAT(train_figures(*m), testing::HasSubstr("MFU: n/a"));
}

// Each rank's measurement is that of all of them.
std::vector<Measurement> measure_on_ranks(const Recipe::MeshSizes& mesh) {
  std::vector<Measurement> measured(static_cast<size_t>(mesh.ranks()));
  train::on_ranks(mesh, [&] {
    TrainCase one = tiny_model("bf16");
    one.mesh = mesh;
    std::vector<std::string> skipped;
    std::unique_ptr<LanguageModel> model;
    CountingTelemetry telemetry;
    const std::shared_ptr<Context>& context = Context::current();
    const std::optional<Measurement> m =
        run_train(context->device(), one, {.steps = 10}, std::nullopt, telemetry, model, skipped);
    ASSERT_TRUE(m.has_value()) << testing::PrintToString(skipped);
    measured[static_cast<size_t>(context->rank())] = *m;
  });
  return measured;
}

TEST(TrainBenchmark, RanksMeasureTogetherAndHaveOneGradient) {
  for (const Measurement& m : measure_on_ranks({.fsdp = 2, .tp = 2})) {
    EXPECT_TRUE(m.correct) << m.check;
    EXPECT_EQ(m.workload, "4 x 16 tokens, fsdp 2, tp 2");
    EXPECT_EQ(m.work, 4 * 16);
    EXPECT_EQ(m.details.at("devices"), "4");
    EXPECT_EQ(m.details.at("micro-batch"), "2");
    EXPECT_EQ(m.details.at("J per step"), "256");  // 64 of each
    EXPECT_THAT(m.check, testing::HasSubstr("gradients are those of all ranks' rows: 0."));
    EXPECT_THAT(m.check, testing::HasSubstr("what ranks hold alike is the same bits"));
  }
  const std::vector<Measurement> all = measure_on_ranks({.cp = 2});
  EXPECT_TRUE(all[0].correct) << all[0].check;
  EXPECT_THAT(all[0].check, testing::HasSubstr("all ranks have the same rows"));
}

// What ranks that exchange nothing would have is what they are told from.
TEST(GradientAgreement, HoldsFarFromARanksOwnRows) {
  EXPECT_TRUE((GradientAgreement{1000, 0.002, 0.9}).holds());
  EXPECT_FALSE((GradientAgreement{1000, 0.9, 0.9}).holds());
  EXPECT_FALSE((GradientAgreement{1000, 0.3, 0.9}).holds());
  EXPECT_FALSE((GradientAgreement{1000, 0, 0}).holds());  // nothing that could differ was compared
  EXPECT_FALSE((GradientAgreement{1000, std::nan(""), 0.9}).holds());
  EXPECT_THAT((GradientAgreement{1000, 0.9, 0.9}).text(), testing::HasSubstr("NOT those of all ranks' rows: 90.00 %"));
}

TEST(TrainBenchmark, AMeshIsChosen) {
  EXPECT_EQ(parse_benchmark_mesh({}, 4).dp, 4);
  const Recipe::MeshSizes mesh = parse_benchmark_mesh({"fsdp=2", "tp=4"}, 8);
  EXPECT_EQ(mesh.fsdp, 2);
  EXPECT_EQ(mesh.tp, 4);
  EXPECT_EQ(mesh.ranks(), 8);
  const auto message = [](const std::string& axis) -> std::string {
    try {
      parse_benchmark_mesh({axis}, 2);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(message("pp=2"), testing::HasSubstr("steps of stages are not timed here"));
  EXPECT_THAT(message("fsd=2"), testing::HasSubstr("Did you mean fsdp?"));
  for (const char* text : {"dp", "dp=", "dp=0", "dp=-2", "dp=2x"})
    EXPECT_THAT(message(text), testing::HasSubstr("does not say how many ranks")) << text;
}

TEST(TrainBenchmark, CasesAreChosen) {
  const Device& processor = Context::current()->device();
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
  EXPECT_THAT(message({{"gpt2_124"}, {}, {}}), testing::HasSubstr("Did you mean gpt2_124m?"));
  EXPECT_THAT(message({{}, {"fp16"}, {}}), testing::HasSubstr("Here that is bf16. There is no fp16"));
  EXPECT_THAT(message({{}, {}, 0}), testing::HasSubstr("a micro-batch of 0"));
}

TEST(TrainBenchmark, ABatchThatCannotFitIsLeftOutWithoutCompilingIt) {
  const TrainCase huge = {"GPT-2 124M", "gpt2_124m", {}, 1 << 20, "bf16", true};
  std::vector<std::string> skipped;
  std::unique_ptr<LanguageModel> model;
  const auto telemetry = open_telemetry("cpu");
  EXPECT_FALSE(run_train(Context::current()->device(), huge, {}, std::nullopt, *telemetry, model, skipped).has_value());
  EXPECT_THAT(skipped, testing::ElementsAre(testing::HasSubstr("with a micro-batch of 1048576, and there are")));
}

}  // namespace
}  // namespace causeway::bench
