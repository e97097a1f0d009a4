#include "causeway/bench/generation_benchmark.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "causeway/base/error.h"
#include "causeway/bench/statistics.h"
#include "causeway/program/context.h"

namespace causeway::bench {
namespace {

TEST(GenerationBenchmark, CasesOfAProcessor) {
  const Device& device = Context::current()->device();
  const std::vector<GenerationCase> standard = choose_generation_cases({}, device);
  ASSERT_EQ(standard.size(), 2u);
  EXPECT_EQ(standard[1].recipe, "gpt2_124m");
  EXPECT_EQ(standard[1].precision, "f32");
  EXPECT_EQ(standard[1].sequences, 16);
  const std::vector<GenerationCase> chosen =
      choose_generation_cases({{"shakespeare"}, {"f32", "bf16"}, {3}, int64_t{7}}, device);
  ASSERT_EQ(chosen.size(), 2u);
  EXPECT_EQ(chosen[1].precision, "bf16");
  EXPECT_EQ(chosen[1].length, 7);
}

TEST(GenerationBenchmark, WrongChoicesAreNamed) {
  const Device& device = Context::current()->device();
  const auto message = [&](const GenerationChoice& choice) -> std::string {
    try {
      choose_generation_cases(choice, device);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message({{"shakespear"}, {}, {}, {}}), testing::HasSubstr("shakespeare"));
  EXPECT_THAT(message({{}, {"fp8"}, {}, {}}), testing::HasSubstr("--precision"));
  EXPECT_THAT(message({{}, {}, {0}, {}}), testing::HasSubstr("--sequences"));
  EXPECT_THAT(message({{}, {}, {}, int64_t{0}}), testing::HasSubstr("--length"));
}

TEST(GenerationBenchmark, MeasuresTokensOfASmallModel) {
  Device& device = Context::current()->device();
  std::vector<std::string> skipped;
  const GenerationCase one{"small", "shakespeare", "f32", 2, 16};
  const std::optional<Measurement> m = run_generation(device, one, {.tokens = 20}, std::nullopt, skipped);
  ASSERT_TRUE(m.has_value()) << testing::PrintToString(skipped);
  EXPECT_TRUE(m->correct) << m->check;
  EXPECT_THAT(m->check, testing::HasSubstr("from those of the whole sequences at once, of 0.0001 allowed"));
  EXPECT_EQ(m->work, 2);
  EXPECT_EQ(m->unit, "tokens/s");
  EXPECT_EQ(summarize(*m).samples, 20u);
  EXPECT_THAT(m->details.at("read at least"), testing::HasSubstr("GB/s"));
  EXPECT_FALSE(m->peak.has_value());
  // Longer than the model's longest sequence.
  EXPECT_FALSE(run_generation(device, {"small", "shakespeare", "f32", 1, 100000}, {}, std::nullopt, skipped));
  EXPECT_THAT(skipped, testing::ElementsAre(testing::HasSubstr("longest sequence")));
}

}  // namespace
}  // namespace causeway::bench
