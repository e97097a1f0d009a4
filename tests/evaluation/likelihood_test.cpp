#include "causeway/evaluation/likelihood.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "causeway/evaluation/model_evaluation.h"
#include "causeway/model/hugging_face.h"
#include "causeway/program/context.h"
#include "tests/fixtures/error_message.h"
#include "tests/model/model_test_support.h"

namespace causeway::evaluation {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<LanguageModel> fixture_model(const std::string& name) {
  return load_hugging_face_model(CAUSEWAY_SOURCE_DIR "/tests/fixtures/parity/" + name);
}

std::vector<int32_t> drawn_tokens(size_t count, int64_t vocabulary, uint64_t seed) {
  std::vector<int32_t> tokens;
  for (uint64_t state = seed; tokens.size() < count;) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    tokens.push_back(static_cast<int32_t>((state >> 33) % static_cast<uint64_t>(vocabulary)));
  }
  return tokens;
}

// From the logits that the reference interpreter computes in double precision, of that request alone.
Likelihood reference(const LanguageModel& model, const TokenRequest& request) {
  const std::vector<int32_t> read(request.tokens.begin(), request.tokens.end() - 1);
  const auto length = static_cast<int64_t>(read.size());
  const HostTensor logits = run_on_interpreter(
      [&](const std::vector<Tensor>& arguments) -> std::vector<Tensor> {
        return {model.logits({.tokens = arguments[0], .documents = {}, .dropout_key = {}})};
      },
      {model::integers(read, {1, length})})[0];
  const auto vocabulary = static_cast<size_t>(model.config().vocabulary_size);
  Likelihood result{0, true};
  for (size_t i = request.tokens.size() - request.scored; i < request.tokens.size(); ++i) {
    const std::span<const double> row = std::span(logits.values).subspan((i - 1) * vocabulary, vocabulary);
    const auto target = static_cast<size_t>(request.tokens[i]);
    double sum = 0;
    for (const double logit : row) sum += std::exp(logit);
    result.log += row[target] - std::log(sum);
    result.is_greedy =
        result.is_greedy && std::ranges::max_element(row) - row.begin() == static_cast<ptrdiff_t>(target);
  }
  return result;
}

void expect_close(const std::vector<Likelihood>& actual, const std::vector<Likelihood>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  HostTensor left{DType::kF32, {static_cast<int64_t>(actual.size())}, {}}, right = left;
  for (size_t i = 0; i < actual.size(); ++i) {
    left.values.push_back(actual[i].log);
    right.values.push_back(expected[i].log);
    EXPECT_EQ(actual[i].is_greedy, expected[i].is_greedy) << i;
  }
  const Comparison comparison = compare(left, right, bounds::normalized(256));
  EXPECT_TRUE(comparison.equal) << comparison.text;
}

class LikelihoodOf : public testing::TestWithParam<const char*> {};

// Lengths of several buckets, in one call, more than one batch of each.
TEST_P(LikelihoodOf, AgreesWithLogitsInDoublePrecision) {
  const auto model = fixture_model(GetParam());
  const int64_t vocabulary = model->config().vocabulary_size;
  std::vector<TokenRequest> requests;
  for (const size_t length : {2, 31, 5, 17, 9, 33, 24, 12, 16, 25})
    requests.push_back({drawn_tokens(length, vocabulary, length), std::max<size_t>(1, length / 3), 0});
  // The same text read twice, for two answers, and with another share of it scored.
  requests.push_back(requests[3]);
  requests.back().tokens.back() = (requests.back().tokens.back() + 1) % static_cast<int32_t>(vocabulary);
  requests.push_back(requests[3]);
  requests.back().scored = 11;
  std::vector<Likelihood> expected;
  for (const TokenRequest& request : requests) expected.push_back(reference(*model, request));
  LikelihoodModel likelihoods(*model, {.batch_tokens = 64});
  std::vector<size_t> done;
  expect_close(likelihoods.of(requests, [&](size_t count) { done.push_back(count); }), expected);
  EXPECT_EQ(done.back(), requests.size());
  EXPECT_GT(done.size(), 3u);
  EXPECT_TRUE(std::ranges::is_sorted(done));
}

TEST_P(LikelihoodOf, TheLikeliestTokenIsGreedy) {
  const auto model = fixture_model(GetParam());
  TokenRequest request{drawn_tokens(8, model->config().vocabulary_size, 3), 1, 0};
  size_t greedy = 0;
  LikelihoodModel likelihoods(*model, {});
  std::vector<TokenRequest> requests;
  for (int32_t token = 0; token < model->config().vocabulary_size; ++token) {
    request.tokens.back() = token;
    requests.push_back(request);
  }
  const std::vector<Likelihood> found = likelihoods.of(requests);
  double sum = 0;
  for (const Likelihood& one : found) {
    sum += std::exp(one.log);
    if (!one.is_greedy) continue;
    ++greedy;
    EXPECT_EQ(one.log, std::ranges::max_element(found, {}, &Likelihood::log)->log);
  }
  EXPECT_EQ(greedy, 1u);
  expect_close({{sum, true}}, {{1, true}});
}

INSTANTIATE_TEST_SUITE_P(Families, LikelihoodOf, testing::Values("llama", "gpt2", "mpt"));

TEST(LikelihoodModel, OfEmulatedGpusTheSame) {
  const std::vector<TokenRequest> requests = {
      {drawn_tokens(9, 96, 1), 4, 0}, {drawn_tokens(19, 96, 2), 18, 0}, {drawn_tokens(2, 96, 3), 1, 0}};
  std::vector<Likelihood> expected;
  {
    const auto model = fixture_model("llama");
    for (const TokenRequest& request : requests) expected.push_back(reference(*model, request));
  }
  for (const char* device : {"emulator:sm_90a", "emulator:gfx942"}) {
    SCOPED_TRACE(device);
    const ContextScope context(Context::open(device));
    const auto model = fixture_model("llama");
    expect_close(LikelihoodModel(*model, {.batch_tokens = 32}).of(requests), expected);
  }
}

TEST(LikelihoodModel, RequestsOfOneLengthDependOnNoOther) {
  const auto model = fixture_model("llama");
  std::vector<TokenRequest> requests;
  for (uint64_t i = 0; i < 9; ++i) requests.push_back({drawn_tokens(12, 96, i), 4, 0});
  LikelihoodModel likelihoods(*model, {.batch_tokens = 64});
  const std::vector<Likelihood> together = likelihoods.of(requests);
  for (size_t i = 0; i < requests.size(); ++i)
    EXPECT_EQ(likelihoods.of(std::span(requests).subspan(i, 1))[0].log, together[i].log) << i;
  EXPECT_TRUE(likelihoods.of({}).empty());
}

TEST(LikelihoodModel, LengthsAreFew) {
  std::vector<int64_t> lengths;
  for (int64_t length = 1; length <= 200; ++length)
    if (const int64_t padded = padded_length(length, 1000); lengths.empty() || padded != lengths.back()) {
      EXPECT_GE(padded, length);
      lengths.push_back(padded);
    }
  EXPECT_EQ(lengths, (std::vector<int64_t>{16, 24, 32, 48, 64, 96, 128, 192, 256}));
  EXPECT_EQ(padded_length(900, 1000), 1000);
  EXPECT_EQ(padded_length(7, 8), 8);
}

TEST(LikelihoodModel, RefusesWhatTheModelCannotRead) {
  const auto model = fixture_model("gpt2");  // 97 tokens, 32 at once
  LikelihoodModel likelihoods(*model, {});
  const auto message = [&](std::vector<int32_t> tokens) {
    const std::vector<TokenRequest> requests = {{std::move(tokens), 1, 0}};
    return message_of([&] { likelihoods.of(requests); });
  };
  EXPECT_EQ(message({1, 97}),
            "evaluate: the text has token 97, but the model knows 97 tokens\n  Use the tokenizer that the model was "
            "trained with.");
  EXPECT_THAT(message(drawn_tokens(34, 97, 1)), HasSubstr("33 tokens are to be read, and the model takes 32 at once"));
  EXPECT_EQ(message(drawn_tokens(33, 97, 1)), "no error");
}

TEST(LikelihoodModel, SaysThatAModelHasDiverged) {
  const auto model = fixture_model("gpt2");
  Tensor weight = model->parameters().front().tensor;
  std::vector<float> values(static_cast<size_t>(weight.local_bytes()) / sizeof(float),
                            std::numeric_limits<float>::quiet_NaN());
  weight.write_bytes(std::as_bytes(std::span(values)));
  LikelihoodModel likelihoods(*model, {});
  const std::vector<TokenRequest> requests = {{{1, 2}, 1, 0}};
  EXPECT_THAT(message_of([&] { likelihoods.of(requests); }), HasSubstr("the model's logits are not finite"));
}

// A text's likelihood by hand, from that of each of its tokens.
TEST(EvaluateText, AddsUpItsTokens) {
  const auto model = fixture_model("gpt2");
  LikelihoodModel likelihoods(*model, {});
  const ByteTokenizer bytes;
  std::string text;
  for (const int32_t token : drawn_tokens(75, 90, 5)) text += static_cast<char>(token);
  const RequestEncoder encoder(bytes, 32);
  const TextResult result = evaluate_text(likelihoods, encoder, bytes, text, "text.txt");
  EXPECT_EQ(result.bytes, 74u);
  EXPECT_EQ(result.tokens, 74u);
  EXPECT_EQ(result.windows, 3u);
  double expected = 0;
  for (const auto& [first, scored, end] : {std::tuple<size_t, size_t, size_t>{0, 32, 33}, {32, 32, 65}, {42, 10, 75}})
    expected += reference(*model, {bytes.encode(std::string_view(text).substr(first, end - first)), scored, 0}).log;
  expect_close({{result.log_likelihood, true}}, {{expected, true}});
  EXPECT_DOUBLE_EQ(result.perplexity, std::exp(-result.log_likelihood / 74));
  EXPECT_DOUBLE_EQ(result.byte_perplexity, result.perplexity);
  EXPECT_DOUBLE_EQ(result.bits_per_byte, -result.log_likelihood / 74 / std::log(2.0));
  EXPECT_EQ(message_of([&] { evaluate_text(likelihoods, encoder, bytes, "a", "text.txt"); }),
            "text.txt: the text has no token to be scored\n  Give more text.");
}

}  // namespace
}  // namespace causeway::evaluation
