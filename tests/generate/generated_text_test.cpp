#include "causeway/generate/generated_text.h"

#include <gtest/gtest.h>

namespace causeway::generate {
namespace {

// What is shown after each byte, and at the end, joined by '|'.
std::string shown(const std::string& said, const std::vector<std::string>& stops, std::string* whole = nullptr) {
  const ByteTokenizer tokenizer;
  GeneratedText text(tokenizer, tokenizer.encode("prompt"), stops);
  std::string parts;
  for (const char byte : said) {
    parts += text.add(static_cast<unsigned char>(byte)) + "|";
    if (text.has_stopped()) break;
  }
  parts += text.finish();
  if (whole != nullptr) *whole = text.text();
  return parts;
}

TEST(GeneratedText, IsShownAsItComes) { EXPECT_EQ(shown("abc", {}), "a|b|c|"); }

TEST(GeneratedText, EndsBeforeAStop) {
  std::string whole;
  EXPECT_EQ(shown("ab\n\ncd", {"\n\n"}, &whole), "a|b|||");
  EXPECT_EQ(whole, "ab");
}

TEST(GeneratedText, WhatMightBeAStopWaits) {
  EXPECT_EQ(shown("a\nb", {"\n\n"}), "a||\nb|");
  EXPECT_EQ(shown("xaab", {"aaa"}), "x|||aab|");
  EXPECT_EQ(shown("a\n", {"\n\n"}), "a||\n");
}

TEST(GeneratedText, TheFirstOfSeveralStopsCounts) {
  std::string whole;
  shown("one two three", {"three", "two"}, &whole);
  EXPECT_EQ(whole, "one ");
  shown("abcd", {"bcd", "bc"}, &whole);
  EXPECT_EQ(whole, "a");
  shown("ab", {""}, &whole);
  EXPECT_EQ(whole, "ab");
}

}  // namespace
}  // namespace causeway::generate
