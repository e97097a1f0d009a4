#include "causeway/formats/tokenizer/regular_expression.h"

#include "causeway/formats/tokenizer/encoding_budget.h"
#include "tests/fixtures/data_test_support.h"

namespace causeway::formats {
namespace {

using Matches = std::vector<std::string>;

Matches matches(std::string_view pattern, std::string_view text) {
  Matches found;
  RegularExpression(pattern, "here").for_each_match(text, [&](size_t begin, size_t end) {
    found.emplace_back(text.substr(begin, end - begin));
  });
  return found;
}

std::string refusal_of_pattern(std::string_view pattern) {
  const Error error = caught([&] { RegularExpression(pattern, "here"); });
  EXPECT_EQ(error.where(), "here");
  return error.message();
}

TEST(RegularExpression, MatchesAsOnigurumaDoes) {
  EXPECT_EQ(matches(R"(\p{N}{1,3})", "1234567"), (Matches{"123", "456", "7"}));
  EXPECT_EQ(matches(R"(\s+(?!\S)|\s+)", "a   b"), (Matches{"  ", " "}));
  EXPECT_EQ(matches(R"((?i:'s|'ll))", "a'S b'Ll"), (Matches{"'S", "'Ll"}));
  EXPECT_EQ(matches(R"((?i)AB|c)", "ab C"), (Matches{"ab", "C"}));
  EXPECT_EQ(matches(R"([^\s\p{L}]+)", "ab12 \xE4\xBD\xA0!"), (Matches{"12", "!"}));
  EXPECT_EQ(matches(R"(\p{Han}+)", "a\xE4\xBD\xA0\xE5\xA5\xBD"), (Matches{"\xE4\xBD\xA0\xE5\xA5\xBD"}));
  EXPECT_EQ(matches(R"((?<=a)b++c?+)", "abbc bbc"), (Matches{"bbc"}));
  EXPECT_EQ(matches(R"(^a$)", "a\na\nb"), (Matches{"a", "a"}));
  EXPECT_EQ(matches(R"([a\-z\]]+)", "az-]b"), (Matches{"az-]"}));
  EXPECT_EQ(matches(R"(\u0041\x{42}\x43\.)", "ABC."), (Matches{"ABC."}));
}

TEST(RegularExpression, KnowsUnicode16) {
  // U+1C89 is a letter, U+10D40 a digit since 16.0; U+180E has been no space since 6.3.
  EXPECT_EQ(matches(R"(\p{L})", "\xE1\xB2\x89").size(), 1u);
  EXPECT_EQ(matches(R"([\p{Lu}])", "\xE1\xB2\x89").size(), 1u);
  EXPECT_EQ(matches(R"(\d)", "\xF0\x90\xB5\x80").size(), 1u);
  EXPECT_EQ(matches(R"(\P{L})", "\xE1\xB2\x89").size(), 0u);
  EXPECT_EQ(matches(R"(\s)", "\xE1\xA0\x8E").size(), 0u);
  EXPECT_EQ(matches(R"(\s)", "\xC2\x85\xE3\x80\x80").size(), 2u);
  EXPECT_EQ(matches(R"(\S)", "\xC2\x85\xE3\x80\x80x").size(), 1u);
}

TEST(RegularExpression, NamesWhatItDoesNotInterpret) {
  EXPECT_EQ(refusal_of_pattern(R"((a)\1)"), R"("\1" in the regular expression "(a)\1" (byte 4) is not interpreted)");
  EXPECT_TRUE(contains(refusal_of_pattern(R"([a&&b])"), "an intersection of sets"));
  EXPECT_TRUE(contains(refusal_of_pattern(R"([a[b]])"), "a set in a set"));
  EXPECT_TRUE(contains(refusal_of_pattern(R"(\bword)"), "\"\\b\""));
  EXPECT_TRUE(contains(refusal_of_pattern(R"(\h)"), "\"\\h\""));
  EXPECT_TRUE(contains(refusal_of_pattern(R"((?<name>a))"), "\"(?<n\""));
  EXPECT_TRUE(contains(refusal_of_pattern(R"(a{2}+)"), "a quantifier of a quantifier"));
  EXPECT_TRUE(contains(refusal_of_pattern(R"((?i:ss))"), "compared without regard to case"));
  EXPECT_TRUE(contains(refusal_of_pattern(R"(\p{Nonsense})"), "cannot be used"));
  EXPECT_TRUE(contains(refusal_of_pattern("a*"), "matches where there is no character"));
  EXPECT_TRUE(contains(refusal_of_pattern("(a"), "a group without its end"));
  EXPECT_TRUE(contains(refusal_of_pattern("[a"), "a set without its end"));
  EXPECT_TRUE(contains(refusal_of_pattern("a)"), "a closing parenthesis"));
  EXPECT_TRUE(contains(refusal_of_pattern("*a"), "a quantifier of nothing"));
  EXPECT_TRUE(
      contains(refusal_of_pattern(std::string(200, '(') + "a" + std::string(200, ')')), "groups within one another"));
  EXPECT_TRUE(contains(refusal_of_pattern(std::string(20000, 'a')), "a regular expression of 20000 bytes"));
}

// By the work for a whole text: at each place of it little may be enough.
TEST(RegularExpression, ThoseThatBlowUpAreRefused) {
  const std::string text = std::string(60, 'a') + "b";
  for (const char* pattern : {"(a+)+[cd]", "(a|a)+[cd]", "(a*a*)*[cd]", "([a-z]+)*?[cd]"}) {
    const Error error = caught([&] { matches(pattern, text); });
    EXPECT_EQ(error.kind(), ErrorKind::kResource) << pattern;
  }
  // Cubic, quadratic in steps, quadratic in what a step reads.
  for (const auto& [pattern, bytes] : {std::pair{"a*a*b|a", 4'000}, {"a*b|a", 100'000}, {"a*+b|a", 100'000}}) {
    const Error error = caught([&] {
      const EncodingBudget::Scope budget(static_cast<size_t>(bytes));
      matches(pattern, std::string(static_cast<size_t>(bytes), 'a'));
    });
    EXPECT_EQ(error.kind(), ErrorKind::kResource) << pattern;
    EXPECT_TRUE(contains(error.message(), fmt::format("a text of {} bytes takes more than", bytes))) << error.message();
    EXPECT_EQ(error.where(), "here");
  }
}

TEST(RegularExpression, LongMatchesAreNoFault) {
  const size_t size = 300'000;
  EXPECT_EQ(matches(R"(\s+(?!\S)|\s+)", std::string(10 * size, ' ') + "x").size(), 2u);
  // Steps for each letter, and one piece.
  EXPECT_EQ(matches(R"([A-Z]*[a-z]+|[A-Z]+)", std::string(size, 'A')).size(), 1u);
  EXPECT_EQ(matches(R"((?:ab)+)", std::string(1000, 'a') + "b").size(), 1u);
  // What is beyond a match, near and far: the end of the text, characters of several bytes, nothing.
  for (const size_t before : {0, 1, 253, 254, 255, 256, 257, 1023, 1024}) {
    const std::string text = std::string(before, 'x') + "\u00e9\u00e9 y";
    const Matches expected = {"\u00e9\u00e9"};
    EXPECT_EQ(matches("\u00e9+", text), expected) << before;
    EXPECT_EQ(matches("\u00e9+(?= y$)", text), expected) << before;
    EXPECT_EQ(matches("(?<!z)\u00e9\u00e9(?! z)", text), expected) << before;
    EXPECT_EQ(matches("z", text).size(), 0u);
  }
}

}  // namespace
}  // namespace causeway::formats
