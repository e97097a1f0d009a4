#include "causeway/evaluation/token_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "causeway/base/file.h"
#include "causeway/formats/tokenizer/gpt2_tokenizer.h"
#include "causeway/formats/tokenizer/json_tokenizer.h"
#include "tests/fixtures/error_message.h"

namespace causeway::evaluation {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<int32_t>;

const Tokenizer& gpt2() {
  static const Gpt2Tokenizer tokenizer = Gpt2Tokenizer::load(CAUSEWAY_SOURCE_DIR "/tests/fixtures/gpt2_tokenizer");
  return tokenizer;
}

// Its template puts <|begin_of_text|> before a text.
JsonTokenizer llama3(const std::string& config) {
  return JsonTokenizer::parse(
      read_text_file(CAUSEWAY_SOURCE_DIR "/tests/fixtures/tokenizer_json/llama3/tokenizer.json"),
      {{"tokenizer_config.json", config}});
}

Ids joined(Ids left, const Ids& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

TEST(RequestEncoder, TextsAreEncodedTogetherAndSpacesGoToTheAnswer) {
  const RequestEncoder encoder(gpt2(), 100);
  const TokenRequest request = encoder.encode({"The river", " runs"}, "");
  EXPECT_EQ(request.tokens, gpt2().encode("The river runs"));
  EXPECT_EQ(request.scored, gpt2().encode(" runs").size());
  EXPECT_EQ(request.cut_tokens, 0u);
  const TokenRequest spaced = encoder.encode({"The river ", "runs"}, "");
  EXPECT_EQ(spaced.tokens, request.tokens);
  EXPECT_EQ(spaced.scored, request.scored);
}

TEST(RequestEncoder, AnEmptyContextIsTheEndOfAText) {
  const int32_t end = gpt2().end_of_text().value();
  const TokenRequest request = RequestEncoder(gpt2(), 100).encode({"", " runs"}, "");
  EXPECT_EQ(request.tokens, joined({end}, gpt2().encode(" runs")));
  EXPECT_EQ(request.scored, request.tokens.size() - 1);
  // Bytes have no such token: the first one stands for it.
  const ByteTokenizer bytes;
  const RequestEncoder encoder(bytes, 100);
  EXPECT_FALSE(encoder.prefix_token());
  EXPECT_EQ(encoder.encode({"", " ab"}, "").tokens, (Ids{' ', 'a', 'b'}));
  EXPECT_EQ(encoder.encode({"", " ab"}, "").scored, 2u);
}

TEST(RequestEncoder, WhatDoesNotFitIsCutFromTheFront) {
  const ByteTokenizer bytes;
  const RequestEncoder encoder(bytes, 4);
  const TokenRequest fits = encoder.encode({"abc", "de"}, "");  // the last one is not read
  EXPECT_EQ(fits.tokens.size(), 5u);
  EXPECT_EQ(fits.cut_tokens, 0u);
  const TokenRequest cut = encoder.encode({"0abc", "de"}, "");
  EXPECT_EQ(cut.tokens, fits.tokens);
  EXPECT_EQ(cut.scored, 2u);
  EXPECT_EQ(cut.cut_tokens, 1u);
  EXPECT_EQ(encoder.encode({"ab", "cdef"}, "").tokens.size(), 5u);
  EXPECT_EQ(
      message_of([&] { encoder.encode({"a", "bcdef"}, "x.jsonl, line 3"); }),
      "x.jsonl, line 3: the answer has 5 tokens, and the model takes 4 at once\n  Shorten the answer, or leave the "
      "document out.");
  EXPECT_THAT(message_of([&] { encoder.encode({"a", ""}, "x"); }), HasSubstr("the answer's tokens cannot be told"));
  EXPECT_THAT(message_of([&] { encoder.encode({" \n", "b"}, "x"); }),
              HasSubstr("of the text before the answer no token is left"));
}

TEST(RequestEncoder, ATemplatesTokensComeOnce) {
  const JsonTokenizer tokenizer = llama3(R"({"bos_token": {"content": "<|begin_of_text|>"}, "eos_token": ")"
                                         R"(<|end_of_text|>"})");
  const RequestEncoder encoder(tokenizer, 100);
  const Ids begin = tokenizer.encode("<|begin_of_text|>", {.read_special_tokens = true, .add_special_tokens = false});
  ASSERT_EQ(begin.size(), 1u);
  EXPECT_EQ(encoder.prefix_token(), begin[0]);
  const Ids expected = joined(begin, tokenizer.encode("The river runs"));
  EXPECT_EQ(encoder.encode({"The river", " runs"}, "").tokens, expected);
  EXPECT_EQ(encoder.encode({"<|begin_of_text|>The river", " runs"}, "").tokens, expected);
  EXPECT_EQ(encoder.encode({"", " runs"}, "").tokens, joined(begin, tokenizer.encode(" runs")));
  // Without a token that begins a text, the one that ends it.
  const JsonTokenizer other = llama3("");
  EXPECT_EQ(RequestEncoder(other, 100).prefix_token(), other.end_of_text());
}

// As the harness cuts them: the last window looks back as far as the model can.
TEST(RollingWindows, EachTokenIsScoredOnce) {
  const Ids tokens = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<TokenRequest> windows = rolling_windows(tokens, 0, 3);
  ASSERT_EQ(windows.size(), 3u);
  EXPECT_EQ(windows[0].tokens, (Ids{0, 1, 2, 3}));
  EXPECT_EQ(windows[1].tokens, (Ids{3, 4, 5, 6}));
  EXPECT_EQ(windows[2].tokens, (Ids{5, 6, 7, 8}));
  EXPECT_EQ(windows[0].scored, 3u);
  EXPECT_EQ(windows[1].scored, 3u);
  EXPECT_EQ(windows[2].scored, 2u);
  const std::vector<TokenRequest> one = rolling_windows(std::span(tokens).first(2), 0, 3);
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].tokens, (Ids{0, 1, 2}));
  EXPECT_EQ(one[0].scored, 2u);
  EXPECT_TRUE(rolling_windows({}, 0, 3).empty());
}

TEST(RollingWindows, WithoutAPrefixTheFirstTokenIsGiven) {
  const ByteTokenizer bytes;
  const std::vector<TokenRequest> windows = RequestEncoder(bytes, 8).encode_text("abc");
  ASSERT_EQ(windows.size(), 1u);
  EXPECT_EQ(windows[0].tokens, (Ids{'a', 'b', 'c'}));
  EXPECT_EQ(windows[0].scored, 2u);
  EXPECT_TRUE(RequestEncoder(bytes, 8).encode_text("a").empty());
  EXPECT_TRUE(RequestEncoder(bytes, 8).encode_text("").empty());
}

}  // namespace
}  // namespace causeway::evaluation
