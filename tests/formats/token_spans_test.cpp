// Which bytes of a text each token covers.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "causeway/formats/tokenizer/json_tokenizer.h"
#include "tests/formats/gpt2.h"

namespace causeway::formats {
namespace {

const std::vector<std::string> kTexts = {
    "Hello world",
    " two  spaces and\n\nlines\t",
    "it's 12345 tokens, isn't it?",
    "na\u00efve caf\u00e9 \u4f60\u597d\u4e16\u754c \U0001F600!",
    "a<|endoftext|>b <|endoftext|>",
    "\u2581marked \u2581\u2581",
    "",
    " ",
};

struct SpannedText {
  std::vector<int32_t> ids;
  std::vector<TextSpan> spans;
};

SpannedText spans_of(const Tokenizer& tokenizer, const std::string& text, bool read_special_tokens = true) {
  SpannedText result;
  tokenizer.encode_spans_to(text, read_special_tokens, result.ids, result.spans);
  return result;
}

// The ids are those of encode_to(), and spans lie one behind the other in the text.
void expect_consistent(const Tokenizer& tokenizer, const std::string& text, const std::string& what) {
  for (const bool special : {false, true}) {
    const SpannedText result = spans_of(tokenizer, text, special);
    std::vector<int32_t> ids;
    tokenizer.encode_to(text, special, ids);
    EXPECT_EQ(result.ids, ids) << what;
    ASSERT_EQ(result.spans.size(), ids.size()) << what;
    size_t begin = 0;
    for (const TextSpan& span : result.spans) {
      EXPECT_LE(begin, span.begin) << what;
      EXPECT_LE(span.begin, span.end) << what;
      EXPECT_LE(span.end, text.size()) << what;
      begin = span.begin;
    }
  }
}

// Each token is the text that it covers, and all of the text is covered.
void expect_exact(const Tokenizer& tokenizer, const std::string& text, const std::string& what) {
  const SpannedText result = spans_of(tokenizer, text);
  size_t end = 0;
  for (size_t i = 0; i < result.ids.size(); ++i) {
    EXPECT_EQ(result.spans[i].begin, end) << what;
    end = result.spans[i].end;
    EXPECT_EQ(tokenizer.decode({{result.ids[i]}}), text.substr(result.spans[i].begin, end - result.spans[i].begin))
        << what;
  }
  EXPECT_EQ(end, text.size()) << what;
}

std::filesystem::path json_fixtures() {
  return std::filesystem::path(CAUSEWAY_SOURCE_DIR) / "tests/fixtures/tokenizer_json";
}

TEST(TokenSpans, OfGpt2AndBytesAreTheirTexts) {
  for (const std::string& text : kTexts) {
    expect_consistent(gpt2(), text, text);
    expect_exact(gpt2(), text, text);
    expect_exact(ByteTokenizer(), text, text);
  }
}

TEST(TokenSpans, OfEveryTokenizerJsonAreInOrder) {
  int styles = 0;
  for (const auto& entry : std::filesystem::directory_iterator(json_fixtures())) {
    const JsonTokenizer tokenizer = JsonTokenizer::load(entry.path());
    const std::string style = entry.path().filename().string();
    for (const std::string& text : kTexts) expect_consistent(tokenizer, text, style + ": " + text);
    ++styles;
  }
  EXPECT_GE(styles, 8);
}

TEST(TokenSpans, OfByteLevelJsonAreTheirTexts) {
  for (const char* style : {"llama3", "qwen"}) {
    const JsonTokenizer tokenizer = JsonTokenizer::load(json_fixtures() / style);
    for (const std::string& text : kTexts) expect_exact(tokenizer, text, fmt::format("{}: {}", style, text));
  }
}

// What covers a word's bytes, joined: by the tokens whose spans touch it.
std::string covered_by(const SpannedText& result, const std::string& text, const std::string& word) {
  const size_t begin = text.find(word), end = begin + word.size();
  TextSpan joined{text.size(), 0};
  for (const TextSpan& span : result.spans) {
    if (span.begin == span.end || span.end <= begin || span.begin >= end) continue;
    joined = {std::min(joined.begin, span.begin), std::max(joined.end, span.end)};
  }
  return text.substr(joined.begin, joined.end - joined.begin);
}

// SentencePiece's way: spaces become marks, one is put in front, and what has no token is bytes.
TEST(TokenSpans, GoThroughMarksOfSpacesAndBytes) {
  const std::string text = "go \u4f60\u597d there";
  for (const auto& entry : std::filesystem::directory_iterator(json_fixtures())) {
    const std::string style = entry.path().filename().string();
    if (style != "mistral" && style != "metaspace" && style != "unigram_bytes") continue;
    const JsonTokenizer tokenizer = JsonTokenizer::load(entry.path());
    const SpannedText result = spans_of(tokenizer, text);
    EXPECT_EQ(result.spans.front().begin, 0u) << style;
    EXPECT_EQ(result.spans.back().end, text.size()) << style;
    for (const char* word : {"go", "there"}) {
      const std::string covered = covered_by(result, text, word);
      EXPECT_TRUE(covered == word || covered == std::string(" ") + word) << style << ": " << covered;
    }
  }
}

// Characters that the vocabulary lacks are one unknown token; those around it cover their own texts.
TEST(TokenSpans, GoAroundUnknownCharacters) {
  const JsonTokenizer tokenizer = JsonTokenizer::load(json_fixtures() / "unigram");
  const std::string text = "the <|end|>as";
  const SpannedText result = spans_of(tokenizer, text);
  std::vector<std::string> covered;
  for (const TextSpan& span : result.spans) covered.push_back(text.substr(span.begin, span.end - span.begin));
  const auto has = [&](const std::string& part) { return std::ranges::find(covered, part) != covered.end(); };
  EXPECT_TRUE(has("end") && has("as") && has("|>")) << ::testing::PrintToString(covered);
}

// A space that the tokenizer puts in front, where it is a token of its own, is of what it stands in front of.
TEST(TokenSpans, ASpaceInFrontIsOfWhatFollows) {
  const JsonTokenizer tokenizer = JsonTokenizer::load(json_fixtures() / "metaspace");
  const std::string text = "\u4f60";
  const SpannedText result = spans_of(tokenizer, text);
  ASSERT_FALSE(result.spans.empty());
  EXPECT_EQ(result.spans.front().begin, 0u);
  EXPECT_GT(result.spans.front().end, 0u);
}

// NFC makes one character of two: the token covers both.
TEST(TokenSpans, GoThroughNormalization) {
  const JsonTokenizer tokenizer = JsonTokenizer::load(json_fixtures() / "qwen");
  const std::string decomposed = "the cafe\u0301s open";
  const SpannedText result = spans_of(tokenizer, decomposed);
  EXPECT_EQ(result.spans.back().end, decomposed.size());
  size_t end = 0;
  for (const TextSpan& span : result.spans) {
    EXPECT_TRUE(span.begin == end || span.end == end) << span.begin;
    EXPECT_NE(span.begin, decomposed.find("\u0301")) << "within a character";
    end = span.end;
  }
}

}  // namespace
}  // namespace causeway::formats
