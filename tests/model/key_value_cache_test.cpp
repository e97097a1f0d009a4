// Tokens one after the other, with keys and values kept, against whole sequences.
#include "causeway/model/key_value_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "causeway/model/family.h"
#include "causeway/program/context.h"
#include "causeway/program/program.h"
#include "tests/model/model_test_support.h"

namespace causeway::model {
namespace {

constexpr int64_t kVocabulary = 61;
constexpr int64_t kCapacity = 48;
constexpr int64_t kBlock = 4;

bool has_windows(const std::string& family) { return family == "mistral" || family == "gemma2"; }

ModelConfig small_cached_model_config(const std::string& family, int64_t window = 6) {
  ModelConfig config;
  config.family = family;
  config.vocabulary_size = kVocabulary;
  config.layers = 2;
  config.width = 32;
  config.heads = 4;
  if (model_family(family).grouped_queries) config.kv_heads = 2;
  config.ffn_width = 48;
  config.max_sequence_length = kCapacity;
  config.initializer_range = 0.2;
  if (has_windows(family)) config.own["sliding_window"] = window;
  return config.resolved();
}

std::vector<int32_t> sequence(int32_t length, int32_t seed) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < length; ++i) tokens.push_back((i * 17 + i * i * 5 + seed * 31) % kVocabulary);
  return tokens;
}

// The row's largest logit is what a difference is measured by.
void expect_row(std::span<const double> found, std::span<const double> expected, const std::string& where) {
  ASSERT_EQ(found.size(), expected.size());
  double largest = 0, difference = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    difference = std::max(difference, std::abs(found[i] - expected[i]));
  }
  EXPECT_GT(largest, 0.1) << where;
  EXPECT_LE(difference, 1e-5 * largest) << where;
}

std::vector<int32_t> count_to(int64_t length) {
  std::vector<int32_t> numbers(static_cast<size_t>(length));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

std::string test_name(const testing::TestParamInfo<std::tuple<std::string, std::string>>& test) {
  std::string name = std::get<0>(test.param) + "_" + std::get<1>(test.param);
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
}

class KeyValueCacheTest : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  std::string family() const { return std::get<0>(GetParam()); }

  // The step of one token: tokens and positions [B, 1], cached positions [S], slots of a ring [R].
  static Step next_step(const LanguageModel& model, const KeyValueCache& cache, const StepOptions& options = {}) {
    return Step(
        [&](const std::vector<Tensor>& arguments) -> std::vector<Tensor> {
          ForwardInputs inputs;
          inputs.tokens = arguments[0];
          inputs.positions = arguments[1];
          inputs.cache = &cache;
          inputs.cached_positions = arguments[2];
          inputs.ring_slots = arguments[3];
          return {model.logits_after(inputs, constant_tensor(DType::kI32, {Dim(cache.sequences())}, 0))};
        },
        options);
  }

  // Sequences side by side, whose beginnings are computed together and whose other tokens come one by one.
  void expect_whole_sequences(const std::vector<std::vector<int32_t>>& sequences, const std::vector<int32_t>& prompts,
                              int64_t block);

  std::shared_ptr<Context> context_ = Context::open(std::get<1>(GetParam()));
  ContextScope scope_{context_};
  std::unique_ptr<LanguageModel> model_ = LanguageModel::create(small_cached_model_config(family()), 7);

  // [V] of every position, of the whole sequence.
  std::vector<double> whole_logits(const std::vector<int32_t>& tokens) const {
    Step step([&](const std::vector<Tensor>& arguments) -> std::vector<Tensor> {
      ForwardInputs inputs;
      inputs.tokens = arguments[0];
      return {model_->logits(inputs)};
    });
    return step({integers(tokens, {1, static_cast<int64_t>(tokens.size())})}).front().values();
  }
};

void KeyValueCacheTest::expect_whole_sequences(const std::vector<std::vector<int32_t>>& sequences,
                                               const std::vector<int32_t>& prompts, int64_t block) {
  const auto rows = static_cast<int64_t>(sequences.size());
  KeyValueCache cache(*model_, rows, kCapacity, block, DType::kF32);
  Step first([&](const std::vector<Tensor>& arguments) -> std::vector<Tensor> {
    ForwardInputs inputs;
    inputs.tokens = arguments[0];
    inputs.positions = arguments[1];
    inputs.cache = &cache;
    return {model_->logits_after(inputs, arguments[2])};
  });
  StepOptions options;
  options.symbolic = {{2, 0, "S", kBlock}, {3, 0, "R", 2}};
  Step next = next_step(*model_, cache, options);
  std::vector<std::vector<double>> whole;
  for (const std::vector<int32_t>& tokens : sequences) whole.push_back(whole_logits(tokens));
  const auto expect = [&](const Tensor& logits, size_t row, int32_t position) {
    const std::vector<double> values = logits.values();
    expect_row(std::span(values).subspan(row * kVocabulary, kVocabulary),
               std::span(whole[row]).subspan(static_cast<size_t>(position) * kVocabulary, kVocabulary),
               fmt::format("sequence {}, position {}", row, position));
  };

  // A second time after clear(): nothing of the first sequences is left.
  for (int pass = 0; pass < 2; ++pass) {
    const int32_t longest_prompt = *std::max_element(prompts.begin(), prompts.end());
    std::vector<int32_t> tokens(sequences.size() * static_cast<size_t>(longest_prompt), 5),
        positions(tokens.size(), -1), last;
    for (size_t i = 0; i < sequences.size(); ++i) {
      const auto row = static_cast<ptrdiff_t>(i) * longest_prompt;
      std::copy_n(sequences[i].begin(), prompts[i], tokens.begin() + row);
      std::iota(positions.begin() + row, positions.begin() + row + prompts[i], 0);
      last.push_back(prompts[i] - 1);
    }
    const Tensor logits = first({integers(tokens, {rows, longest_prompt}), integers(positions, {rows, longest_prompt}),
                                 integers(last, {rows})})
                              .front();
    for (size_t i = 0; i < sequences.size(); ++i) expect(logits, i, prompts[i] - 1);
    for (int32_t step = 0;; ++step) {
      std::vector<int32_t> one(sequences.size(), 0), at(sequences.size(), -1);
      int32_t longest = 0;
      for (size_t i = 0; i < sequences.size(); ++i) {
        const int32_t position = prompts[i] + step;
        if (position >= static_cast<int32_t>(sequences[i].size())) continue;
        one[i] = sequences[i][static_cast<size_t>(position)];
        at[i] = position;
        longest = std::max(longest, position + 1);
      }
      if (longest == 0) break;
      const int64_t looked_at = (longest + kBlock - 1) / kBlock * kBlock,
                    slots = cache.ring() > 0 ? std::min(looked_at, cache.ring()) : looked_at;
      const Tensor following = next({integers(one, {rows, 1}), integers(at, {rows, 1}),
                                     integers(count_to(looked_at), {looked_at}), integers(count_to(slots), {slots})})
                                   .front();
      for (size_t i = 0; i < sequences.size(); ++i)
        if (at[i] >= 0) expect(following, i, at[i]);
    }
    cache.clear();
  }
}

TEST_P(KeyValueCacheTest, TokenByTokenIsAsWholeSequences) {
  expect_whole_sequences({sequence(15, 1), sequence(11, 2), sequence(13, 3)}, {9, 1, 5}, kBlock);
}

// A program that copied a layer's keys would need memory for them.
TEST_P(KeyValueCacheTest, IsWrittenInPlace) {
  const auto model = LanguageModel::create(small_cached_model_config(family(), 1024), 7);
  KeyValueCache cache(*model, 1, 4096, kBlock, DType::kF32);
  Step next = next_step(*model, cache);
  const Tensor token = integers({0}, {1, 1}), cached = integers({0, 1, 2, 3}, {4});
  const int64_t arena = next.prepare({token, token, cached, cached}).memory().arena_bytes;
  EXPECT_LT(arena, cache.bytes() / 16);
}

INSTANTIATE_TEST_SUITE_P(Families, KeyValueCacheTest,
                         testing::Values(std::tuple{"gpt2", "cpu"}, std::tuple{"llama", "cpu"},
                                         std::tuple{"mistral", "cpu"}, std::tuple{"mpt", "cpu"},
                                         std::tuple{"qwen2", "cpu"}, std::tuple{"qwen3", "cpu"},
                                         std::tuple{"olmo2", "cpu"}, std::tuple{"gemma2", "cpu"},
                                         std::tuple{"olmoe", "cpu"}, std::tuple{"qwen2_moe", "cpu"},
                                         std::tuple{"llama", "emulator:sm_90a"}, std::tuple{"mpt", "emulator:gfx942"}),
                         test_name);

// Where layers have windows of 6.
class KeyValueRingTest : public KeyValueCacheTest {};

// Around a ring of 8 slots up to five times, from prompts of less than one round and of more than two, 60 rows that a
// GPU sorts. A ring of the window itself has nothing to spare.
TEST_P(KeyValueRingTest, AroundSeveralTimesIsAsWholeSequences) {
  const std::vector<std::vector<int32_t>> sequences = {sequence(47, 1), sequence(31, 2), sequence(40, 3)};
  for (const int64_t block : {4, 2}) {
    SCOPED_TRACE(block);
    expect_whole_sequences(sequences, {20, 1, 7}, block);
  }
}

TEST_P(KeyValueRingTest, KeepsAsManyTokensAsTheWindowHas) {
  const auto& config = model_->config();
  const int64_t token = 2 * config.kv_heads * config.head_dim * 4;
  const int64_t whole_layers = family() == "gemma2" ? 1 : 0;
  const KeyValueCache cache(*model_, 3, kCapacity, kBlock, DType::kF32);
  EXPECT_EQ(cache.ring(), 8);
  EXPECT_EQ(cache.has_whole_layers(), whole_layers > 0);
  EXPECT_EQ(cache.bytes(), 3 * token * (whole_layers * kCapacity + (2 - whole_layers) * 8));
  // What is not longer than the window is kept as it is elsewhere.
  const KeyValueCache shorter(*model_, 3, 8, kBlock, DType::kF32);
  EXPECT_EQ(shorter.ring(), 0);
  EXPECT_EQ(shorter.bytes(), 3 * token * 2 * 8);
}

INSTANTIATE_TEST_SUITE_P(Families, KeyValueRingTest,
                         testing::Combine(testing::Values("mistral", "gemma2"),
                                          testing::Values("cpu", "emulator:sm_90a", "emulator:gfx942")),
                         test_name);

}  // namespace
}  // namespace causeway::model
