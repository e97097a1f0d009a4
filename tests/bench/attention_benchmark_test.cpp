#include "causeway/bench/attention_benchmark.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "causeway/base/error.h"
#include "causeway/program/context.h"
#include "tests/bench/processor.h"

namespace causeway::bench {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr AttentionPattern kPatterns[] = {AttentionPattern::kCausal,        AttentionPattern::kFull,
                                          AttentionPattern::kSlidingWindow, AttentionPattern::kDocument,
                                          AttentionPattern::kAlibi,         AttentionPattern::kSoftCap};
const AttentionSettings kShort = {.timing = {.samples = 2, .rounds = 2, .warm_up_seconds = 0}};

AttentionCase small(AttentionPattern pattern, bool backward, DType dtype = DType::kF32) {
  AttentionCase c;
  c.pattern = pattern;
  c.batch = 2;
  c.length = 64;
  c.heads = 4;
  c.key_heads = 2;
  c.head_dim = 32;
  c.backward = backward;
  c.dtype = dtype;
  c.window = 24;
  return c;
}

// Causeway's work, after which one element of what `which` chooses is off.
AttentionProvider spoiled(void* AttentionBuffers::* which, size_t element) {
  return {"spoiled", [=](const AttentionCase& c, const AttentionBuffers& buffers) -> TimedWork {
            const TimedWork right = causeway_attention().prepare(c, buffers);
            return [right, memory = static_cast<float*>(buffers.*which) + element] {
              right();
              const float wrong = 100;
              processor().copy_to_device(memory, &wrong, sizeof wrong);
            };
          }};
}

TEST(AttentionBenchmark, DensityIsWhatCountingGives) {
  for (const AttentionPattern pattern : kPatterns) {
    for (const int64_t length : {16, 37, 100}) {
      AttentionCase c = small(pattern, false);
      c.length = length;
      int64_t seen = 0;
      for (int64_t i = 0; i < length; ++i)
        for (int64_t j = 0; j < length; ++j) seen += attends(c, i, j);
      EXPECT_DOUBLE_EQ(mask_density(c), static_cast<double>(seen) / static_cast<double>(length * length))
          << c.workload();
    }
  }
}

TEST(AttentionBenchmark, OperationsAreThoseOfTwoAndFiveGemms) {
  AttentionCase c = small(AttentionPattern::kFull, false);
  EXPECT_EQ(attention_flops(c), 4.0 * 2 * 4 * 64 * 64 * 32);
  c.backward = true;
  EXPECT_EQ(attention_flops(c), 3.5 * 4 * 2 * 4 * 64 * 64 * 32);
  c.value_dim = 16;
  EXPECT_EQ(attention_flops(c), 2.0 * 2 * 4 * 64 * 64 * (4 * 32 + 3 * 16));
  c.backward = false;
  EXPECT_EQ(attention_flops(c), 2.0 * 2 * 4 * 64 * 64 * (32 + 16));
}

TEST(AttentionBenchmark, EveryPatternIsRightForwardAndBackward) {
  for (const AttentionPattern pattern : kPatterns) {
    for (const bool backward : {false, true}) {
      const AttentionCase c = small(pattern, backward);
      std::vector<std::string> skipped;
      const std::vector<Measurement> measurements =
          run_attention(processor(), c, {causeway_attention()}, kShort, {}, skipped);
      EXPECT_THAT(skipped, ElementsAre());
      ASSERT_EQ(measurements.size(), 1u);
      const Measurement& m = measurements[0];
      EXPECT_TRUE(m.correct) << m.workload << ": " << m.check;
      EXPECT_EQ(m.benchmark, "attention");
      EXPECT_EQ(m.provider, "Causeway");
      EXPECT_EQ(m.unit, "TFLOP/s");
      EXPECT_EQ(m.dtype, "f32");
      EXPECT_EQ(m.work, attention_flops(c));
      EXPECT_EQ(m.rounds.size(), 2u);
      EXPECT_THAT(m.details.at("FLOP formula"), AllOf(HasSubstr("4 B H T T D density"), HasSubstr("2.5 x")));
    }
  }
}

TEST(AttentionBenchmark, ValuesOfAnotherWidthAreRight) {
  std::vector<std::string> skipped;
  for (const int64_t value_dim : {16, 48}) {
    AttentionCase c = small(AttentionPattern::kCausal, true);
    c.value_dim = value_dim;
    const auto measurements = run_attention(processor(), c, {causeway_attention()}, kShort, {}, skipped);
    ASSERT_EQ(measurements.size(), 1u);
    EXPECT_TRUE(measurements[0].correct) << measurements[0].check;
    EXPECT_THAT(measurements[0].details.at("FLOP formula"), HasSubstr("(3 D + 2 V) density"));
  }
}

TEST(AttentionBenchmark, NarrowNumbersAreRightWithinTheirPrecision) {
  std::vector<std::string> skipped;
  for (const AttentionPattern pattern :
       {AttentionPattern::kCausal, AttentionPattern::kAlibi, AttentionPattern::kSoftCap}) {
    const auto measurements =
        run_attention(processor(), small(pattern, true, DType::kBF16), {causeway_attention()}, kShort, {}, skipped);
    ASSERT_EQ(measurements.size(), 1u);
    EXPECT_TRUE(measurements[0].correct) << measurements[0].check;
  }
}

TEST(AttentionBenchmark, OneWrongElementIsFound) {
  const AttentionCase c = small(AttentionPattern::kCausal, true);
  // The last row of the last head, and the first key of the last key head, of the last sequence.
  const size_t last = static_cast<size_t>(c.batch * c.length * c.heads * c.head_dim) - 1;
  const size_t key = static_cast<size_t>(c.length * c.key_heads * c.head_dim + (c.key_heads - 1) * c.head_dim);
  std::vector<std::string> skipped;
  const auto measurements =
      run_attention(processor(), c,
                    {causeway_attention(), spoiled(&AttentionBuffers::out, last), spoiled(&AttentionBuffers::dq, last),
                     spoiled(&AttentionBuffers::dk, key), spoiled(&AttentionBuffers::dv, key)},
                    kShort, {}, skipped);
  ASSERT_EQ(measurements.size(), 5u);
  EXPECT_TRUE(measurements[0].correct) << measurements[0].check;
  for (size_t i = 1; i < 5; ++i) EXPECT_FALSE(measurements[i].correct) << i << ": " << measurements[i].check;
}

TEST(AttentionBenchmark, ProvidersThatCannotAreLeftOut) {
  const AttentionProvider none = {"none", [](const AttentionCase&, const AttentionBuffers&) -> TimedWork {
                                    throw Error(ErrorKind::kUnsupported, "has no such attention", "none");
                                  }};
  std::vector<std::string> skipped;
  const auto measurements = run_attention(processor(), small(AttentionPattern::kFull, false),
                                          {none, causeway_attention()}, kShort, {}, skipped);
  ASSERT_EQ(measurements.size(), 1u);
  EXPECT_TRUE(measurements[0].correct);
  EXPECT_THAT(skipped, ElementsAre(HasSubstr("none: full 2x64, 4/2 heads of 32, forward f32: ")));
}

TEST(AttentionBenchmark, StandardCasesHaveNamesOfTheirOwnAndFit) {
  for (const bool is_gpu : {false, true}) {
    const auto cases = standard_attention_cases(is_gpu, DType::kBF16, 0);
    EXPECT_EQ(cases.size(), is_gpu ? 48u : 24u);
    std::set<std::string> names;
    for (const AttentionCase& c : cases) EXPECT_TRUE(names.insert(c.workload()).second) << c.workload();
  }
  EXPECT_TRUE(standard_attention_cases(true, DType::kBF16, 1 << 20).empty());
}

TEST(AttentionBenchmark, UnevenGroupsAreAnError) {
  AttentionCase c = small(AttentionPattern::kFull, false);
  c.key_heads = 3;
  std::vector<std::string> skipped;
  EXPECT_THROW(run_attention(processor(), c, {causeway_attention()}, kShort, {}, skipped), Error);
}

TEST(AttentionBenchmark, EveryDistributionOfInputsIsRight) {
  // Integers make one key of a softmax outweigh all others, zeros none.
  for (const InputDistribution inputs :
       {InputDistribution::kUniform, InputDistribution::kIntegers, InputDistribution::kZeros}) {
    AttentionSettings settings = kShort;
    settings.inputs = inputs;
    std::vector<std::string> skipped;
    for (const AttentionPattern pattern : {AttentionPattern::kCausal, AttentionPattern::kDocument}) {
      const auto measurements =
          run_attention(processor(), small(pattern, true, DType::kBF16), {causeway_attention()}, settings, {}, skipped);
      ASSERT_EQ(measurements.size(), 1u);
      EXPECT_TRUE(measurements[0].correct) << measurements[0].workload << ": " << measurements[0].check;
      EXPECT_EQ(measurements[0].details.at("inputs"), describe_inputs(inputs));
    }
  }
}

TEST(AttentionBenchmark, CasesAreChosen) {
  const AttentionChoice all;
  EXPECT_EQ(choose_attention_cases(all, false, DType::kBF16, 0).size(), 24u);
  AttentionChoice choice = {{"window", "alibi"}, {"backward"}, {}, 300};
  for (const AttentionCase& c : choose_attention_cases(choice, true, DType::kF16, 0)) {
    EXPECT_TRUE(c.pattern == AttentionPattern::kSlidingWindow || c.pattern == AttentionPattern::kAlibi);
    EXPECT_TRUE(c.backward);
    EXPECT_EQ(c.window, 300);
    EXPECT_EQ(c.dtype, DType::kF16);
  }
  choice = {{"causal"}, {"forward"}, {"2x16x16x4096x192x128"}, {}};
  EXPECT_EQ(choose_attention_cases(choice, true, DType::kBF16, 0).front().workload(),
            "causal 2x4096, 16/16 heads of 192 and 128 for values, forward");
  choice = {{"causal", "window"}, {}, {"2x8x4x2048x64", "1,6,2,100,32"}, {}};
  std::vector<std::string> names;
  for (const AttentionCase& c : choose_attention_cases(choice, false, DType::kBF16, 0)) names.push_back(c.workload());
  EXPECT_THAT(names,
              ElementsAre("causal 2x2048, 8/4 heads of 64, forward", "window 1024 2x2048, 8/4 heads of 64, forward",
                          "causal 2x2048, 8/4 heads of 64, both", "window 1024 2x2048, 8/4 heads of 64, both",
                          "causal 1x100, 6/2 heads of 32, forward", "window 25 1x100, 6/2 heads of 32, forward",
                          "causal 1x100, 6/2 heads of 32, both", "window 25 1x100, 6/2 heads of 32, both"));
}

TEST(AttentionBenchmark, WrongChoicesSayWhatIsMeant) {
  const auto message = [](const AttentionChoice& choice) -> std::string {
    try {
      choose_attention_cases(choice, false, DType::kBF16, 0);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(message({{"casual"}, {}, {}, {}}), AllOf(HasSubstr("--pattern"), HasSubstr("Did you mean causal?")));
  EXPECT_THAT(message({{}, {"foreward"}, {}, {}}), AllOf(HasSubstr("--direction"), HasSubstr("Did you mean forward?")));
  for (const char* shape : {"", "4x32x8x4096", "4x32x8x4096x128x0", "4x32x8x4096x128x", "4x32x8x4096x128x64x1",
                            "4x32x8x4096x0", "4x32x8xmanyx64", "-1x4x4x16x64"})
    EXPECT_THAT(message({{}, {}, {shape}, {}}), HasSubstr("is not a shape of attention")) << shape;
  EXPECT_THAT(message({{}, {}, {"4x32x5x4096x128"}, {}}), HasSubstr("32 query heads cannot share 5 key heads"));
  EXPECT_THAT(message({{"full"}, {}, {}, 3}), HasSubstr("no pattern that was chosen has a window"));
  EXPECT_THAT(message({{}, {}, {}, 0}), HasSubstr("a window of 0 keys"));
}

TEST(AttentionBenchmark, WhatDoesNotFitIsLeftOut) {
  AttentionCase c = small(AttentionPattern::kFull, false);
  c.batch = c.length = 1 << 20;
  std::vector<std::string> skipped;
  EXPECT_TRUE(run_attention(processor(), c, {causeway_attention()}, kShort, {}, skipped).empty());
  EXPECT_THAT(skipped, ElementsAre(HasSubstr("cannot allocate")));
}

}  // namespace
}  // namespace causeway::bench
