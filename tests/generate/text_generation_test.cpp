#include "causeway/generate/text_generation.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "causeway/base/error.h"
#include "causeway/program/context.h"

namespace causeway::generate {
namespace {

ModelConfig small(const std::string& family) {
  ModelConfig config;
  config.family = family;
  config.vocabulary_size = 61;
  config.layers = 2;
  config.width = 32;
  config.heads = 4;
  config.max_sequence_length = 80;
  config.initializer_range = 0.3;
  return config.resolved();
}

using Texts = std::vector<std::vector<int32_t>>;
constexpr auto kCached = TextGenerator::Attention::kCached;
constexpr auto kRecomputed = TextGenerator::Attention::kRecomputed;
constexpr auto kStay = TextGenerator::Weights::kStay;

class TextGenerationTest : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<LanguageModel> model_ = LanguageModel::create(small(GetParam()), 7);
  Texts prompts_ = {{1, 2, 3}, {50}, {9, 8, 7, 6, 5, 4, 3, 2, 1, 0}, {60, 1}};
};

TEST_P(TextGenerationTest, WithAndWithoutTheCacheTheTextIsOne) {
  TextGenerator cached(*model_, {}, kCached, kStay), recomputed(*model_, {}, kRecomputed, kStay);
  for (const SamplingOptions& options : {SamplingOptions{.tokens = 24, .temperature = 0},
                                         SamplingOptions{.tokens = 24, .temperature = 0.9, .top_k = 20, .seed = 3}}) {
    const Texts texts = cached.generate(prompts_, options);
    EXPECT_EQ(texts, recomputed.generate(prompts_, options));
    EXPECT_EQ(texts.size(), prompts_.size());
    for (const std::vector<int32_t>& text : texts) EXPECT_EQ(text.size(), 24u);
  }
}

TEST_P(TextGenerationTest, WeightsThatAreCastOnceGiveTheSameText) {
  PipelineOptions pipeline;
  pipeline.mixed_precision.compute = DType::kBF16;
  for (const TextGenerator::Attention attention : {kCached, kRecomputed}) {
    TextGenerator once(*model_, pipeline, attention, kStay);
    TextGenerator each(*model_, pipeline, attention, TextGenerator::Weights::kChange);
    const SamplingOptions options{.tokens = 12, .temperature = 0.9, .seed = 5};
    EXPECT_EQ(once.generate(prompts_, options), each.generate(prompts_, options));
  }
}

TEST_P(TextGenerationTest, AlongsideOthersATextIsItsOwn) {
  TextGenerator generator(*model_, {}, kCached, kStay);
  const SamplingOptions options{.tokens = 12, .temperature = 0};
  const Texts together = generator.generate(prompts_, options);
  for (size_t i = 0; i < prompts_.size(); ++i) EXPECT_EQ(generator.generate(prompts_[i], options), together[i]) << i;
}

// Of 40 positions, whose rings have 64 slots.
ModelConfig with_windows(const std::string& family) {
  ModelConfig config = small(family);
  config.max_sequence_length = 320;
  config.own["sliding_window"] = int64_t{40};
  return config.resolved();
}

std::vector<int32_t> prompt_of(size_t length) {
  std::vector<int32_t> tokens(length);
  for (size_t i = 0; i < length; ++i) tokens[i] = static_cast<int32_t>((i * 7 + i * i * 3 + length) % 61);
  return tokens;
}

// Some go around a ring four times, one has more than two rounds behind it when it begins, one outgrows the model.
TEST(TextGeneration, InWindowsWithAndWithoutTheCacheTheTextIsOne) {
  for (const char* family : {"mistral", "gemma2"}) {
    SCOPED_TRACE(family);
    const auto model = LanguageModel::create(with_windows(family), 7);
    TextGenerator cached(*model, {}, kCached, kStay), recomputed(*model, {}, kRecomputed, kStay);
    const Texts prompts = {prompt_of(3), prompt_of(150), prompt_of(64), prompt_of(316)};
    const SamplingOptions options{.tokens = 200, .temperature = 0.9, .top_k = 20, .seed = 3};
    EXPECT_EQ(cached.generate(Texts(prompts.begin(), prompts.begin() + 3), options),
              recomputed.generate(Texts(prompts.begin(), prompts.begin() + 3), options));
    const SamplingOptions few{.tokens = 8, .temperature = 0};
    EXPECT_EQ(cached.generate(prompts, few), recomputed.generate(prompts, few));
  }
}

TEST(TextGeneration, InWindowsOnGpusTheTextIsThatOfTheProcessor) {
  for (const char* family : {"mistral", "gemma2"}) {
    const Texts prompts = {prompt_of(3), prompt_of(189)};
    const SamplingOptions options{.tokens = 6, .temperature = 0};
    std::vector<Texts> texts;
    for (const char* device : {"cpu", "emulator:sm_90a", "emulator:gfx942"}) {
      const std::shared_ptr<Context> context = Context::open(device);
      const ContextScope scope(context);
      const auto model = LanguageModel::create(with_windows(family), 7);
      for (const TextGenerator::Attention attention : {kCached, kRecomputed})
        texts.push_back(TextGenerator(*model, {}, attention, kStay).generate(prompts, options));
    }
    for (const Texts& text : texts) EXPECT_EQ(text, texts.front()) << family;
  }
}

// The cache holds the model's longest sequence; what follows is computed from the last tokens of that number.
TEST_P(TextGenerationTest, BeyondTheLongestSequenceTheOldestTokensAreForgotten) {
  TextGenerator cached(*model_, {}, kCached, kStay), recomputed(*model_, {}, kRecomputed, kStay);
  std::vector<int32_t> longer(90);
  for (size_t i = 0; i < longer.size(); ++i) longer[i] = static_cast<int32_t>(i * 7 % 61);
  const Texts prompts = {{5, 6}, std::vector<int32_t>(longer.begin(), longer.begin() + 78), longer};
  const SamplingOptions options{.tokens = 6, .temperature = 0};
  EXPECT_EQ(cached.generate(prompts, options), recomputed.generate(prompts, options));
}

TEST_P(TextGenerationTest, APromptsNumbersAreThoseOfItsPlace) {
  TextGenerator generator(*model_, {}, kCached, kStay);
  const SamplingOptions options{.tokens = 12, .temperature = 1.5, .seed = 5};
  const Texts equal(prompts_.size(), prompts_[0]);
  const Texts whole = generator.generate(equal, options);
  EXPECT_NE(whole[0], whole[1]);
  // In a call of its own, the second one has the numbers of the second place.
  Texts apart;
  for (size_t i = 0; i < equal.size(); ++i)
    apart.push_back(generator.generate(std::span(&equal[i], 1), options, {}, i).front());
  EXPECT_EQ(apart, whole);
}

TEST_P(TextGenerationTest, ATextEndsAtAStopTokenOrWhereItIsToldTo) {
  TextGenerator generator(*model_, {}, kCached, kStay);
  SamplingOptions options{.tokens = 20, .temperature = 1.5, .seed = 5};
  const Texts whole = generator.generate(prompts_, options);
  options.stop_tokens = {whole[0][4], whole[1][9]};
  Texts expected = whole;
  for (std::vector<int32_t>& text : expected) {
    const auto stop = std::find_if(text.begin(), text.end(), [&](int32_t token) { return options.stops_at(token); });
    if (stop != text.end()) text.erase(stop + 1, text.end());
  }
  EXPECT_LE(expected[0].size(), 5u);
  EXPECT_EQ(generator.generate(prompts_, options), expected);
  options.stop_tokens.clear();
  Texts heard(prompts_.size());
  const Texts ended = generator.generate(prompts_, options, [&](size_t prompt, int32_t token) {
    heard[prompt].push_back(token);
    return heard[prompt].size() < prompt + 2;
  });
  EXPECT_EQ(ended, heard);
  for (size_t i = 0; i < whole.size(); ++i)
    EXPECT_EQ(ended[i], std::vector<int32_t>(whole[i].begin(), whole[i].begin() + static_cast<ptrdiff_t>(i) + 2));
}

TEST_P(TextGenerationTest, NoTokenBeyondTheTokenizersIsDrawn) {
  TextGenerator generator(*model_, {}, kCached, kStay);
  for (const std::vector<int32_t>& text :
       generator.generate(Texts{{1}, {2}}, {.tokens = 30, .temperature = 5, .vocabulary_size = 10}))
    for (const int32_t token : text) EXPECT_LT(token, 10);
}

TEST_P(TextGenerationTest, BadPromptsAreNamed) {
  TextGenerator generator(*model_, {}, kCached, kStay);
  const auto message = [&](const Texts& prompts, const SamplingOptions& options = {}) -> std::string {
    try {
      generator.generate(prompts, options);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message({{1}, {}}).find("the prompt is empty"), std::string::npos);
  EXPECT_NE(message({{1, 61}}).find("token 61, but the model knows 61"), std::string::npos);
  EXPECT_NE(message({{1}}, {.top_p = 2}).find("top_p"), std::string::npos);
  EXPECT_EQ(generator.generate(std::vector<int32_t>{1}, {.tokens = 0}), std::vector<int32_t>());
}

INSTANTIATE_TEST_SUITE_P(Families, TextGenerationTest, testing::Values("gpt2", "llama", "mistral", "mpt", "gemma2"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace causeway::generate
