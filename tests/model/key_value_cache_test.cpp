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
constexpr int64_t kCapacity = 32;

ModelConfig small(const std::string& family) {
  ModelConfig config;
  config.family = family;
  config.vocabulary_size = kVocabulary;
  config.layers = 2;
  config.width = 32;
  config.heads = 4;
  if (model_family(family).grouped_queries) config.kv_heads = 2;
  config.ffn_width = 48;
  config.max_sequence_length = 24;
  config.initializer_range = 0.2;
  if (family == "mistral" || family == "gemma2") config.own["sliding_window"] = int64_t{6};
  return config.resolved();
}

std::vector<int32_t> sequence(int32_t length, int32_t seed) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < length; ++i) tokens.push_back((i * 17 + i * i * 5 + seed * 31) % kVocabulary);
  return tokens;
}

class KeyValueCacheTest : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  std::shared_ptr<Context> context_ = Context::open(std::get<1>(GetParam()));
  ContextScope scope_{context_};
  std::unique_ptr<LanguageModel> model_ = LanguageModel::create(small(std::get<0>(GetParam())), 7);

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

TEST_P(KeyValueCacheTest, TokenByTokenIsAsWholeSequences) {
  const std::vector<std::vector<int32_t>> sequences = {sequence(15, 1), sequence(11, 2), sequence(13, 3)};
  const std::vector<int32_t> prompts = {9, 1, 5};
  const auto rows = static_cast<int64_t>(sequences.size());
  KeyValueCache cache(model_->config(), rows, kCapacity, DType::kF32);
  EXPECT_EQ(cache.bytes(), 2 * 2 * rows * kCapacity * model_->config().kv_heads * 8 * 4);
  Step first([&](const std::vector<Tensor>& arguments) -> std::vector<Tensor> {
    ForwardInputs inputs;
    inputs.tokens = arguments[0];
    inputs.positions = arguments[1];
    inputs.cache = &cache;
    return {model_->logits_after(inputs, arguments[2])};
  });
  StepOptions options;
  options.symbolic = {{2, 0, "S", 4}};
  Step next(
      [&](const std::vector<Tensor>& arguments) -> std::vector<Tensor> {
        ForwardInputs inputs;
        inputs.tokens = arguments[0];
        inputs.positions = arguments[1];
        inputs.cache = &cache;
        inputs.cached_positions = arguments[2];
        return {model_->logits_after(inputs, constant_tensor(DType::kI32, {Dim(rows)}, 0))};
      },
      options);
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
    constexpr int32_t kLongest = 9;
    std::vector<int32_t> tokens(3 * kLongest, 5), positions(3 * kLongest, -1), last;
    for (size_t i = 0; i < 3; ++i) {
      std::copy_n(sequences[i].begin(), prompts[i], tokens.begin() + static_cast<ptrdiff_t>(i) * kLongest);
      std::iota(positions.begin() + static_cast<ptrdiff_t>(i) * kLongest,
                positions.begin() + static_cast<ptrdiff_t>(i) * kLongest + prompts[i], 0);
      last.push_back(prompts[i] - 1);
    }
    const Tensor logits =
        first({integers(tokens, {rows, kLongest}), integers(positions, {rows, kLongest}), integers(last, {rows})})
            .front();
    for (size_t i = 0; i < 3; ++i) expect(logits, i, prompts[i] - 1);
    for (int32_t step = 0; step < 8; ++step) {
      std::vector<int32_t> one(3, 0), at(3, -1);
      int32_t longest = 1;
      for (size_t i = 0; i < 3; ++i) {
        const int32_t position = prompts[i] + step;
        if (position >= static_cast<int32_t>(sequences[i].size())) continue;
        one[i] = sequences[i][static_cast<size_t>(position)];
        at[i] = position;
        longest = std::max(longest, position + 1);
      }
      std::vector<int32_t> cached(static_cast<size_t>((longest + 3) / 4 * 4));
      std::iota(cached.begin(), cached.end(), 0);
      const Tensor following = next({integers(one, {rows, 1}), integers(at, {rows, 1}),
                                     integers(cached, {static_cast<int64_t>(cached.size())})})
                                   .front();
      for (size_t i = 0; i < 3; ++i)
        if (at[i] >= 0) expect(following, i, at[i]);
    }
    cache.clear();
  }
}

// A program that copied a layer's keys would need memory for them.
TEST_P(KeyValueCacheTest, IsWrittenInPlace) {
  KeyValueCache cache(model_->config(), 1, 4096, DType::kF32);
  Step next([&](const std::vector<Tensor>& arguments) -> std::vector<Tensor> {
    ForwardInputs inputs;
    inputs.tokens = arguments[0];
    inputs.positions = arguments[0];
    inputs.cache = &cache;
    inputs.cached_positions = arguments[1];
    return {model_->logits_after(inputs, constant_tensor(DType::kI32, {Dim(1)}, 0))};
  });
  const Tensor token = integers({0}, {1, 1}), cached = integers({0, 1, 2, 3}, {4});
  const int64_t arena = next.prepare({token, cached}).memory().arena_bytes;
  EXPECT_LT(arena, cache.bytes() / 16);
}

INSTANTIATE_TEST_SUITE_P(Families, KeyValueCacheTest,
                         testing::Values(std::tuple{"gpt2", "cpu"}, std::tuple{"llama", "cpu"},
                                         std::tuple{"mistral", "cpu"}, std::tuple{"mpt", "cpu"},
                                         std::tuple{"qwen2", "cpu"}, std::tuple{"qwen3", "cpu"},
                                         std::tuple{"olmo2", "cpu"}, std::tuple{"gemma2", "cpu"},
                                         std::tuple{"llama", "emulator:sm_90a"}, std::tuple{"mpt", "emulator:gfx942"}),
                         [](const auto& test) {
                           std::string name = std::get<0>(test.param) + "_" + std::get<1>(test.param);
                           std::replace(name.begin(), name.end(), ':', '_');
                           return name;
                         });

}  // namespace
}  // namespace causeway::model
