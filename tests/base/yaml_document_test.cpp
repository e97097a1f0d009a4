#include "causeway/base/yaml_document.h"

#include <gmock/gmock.h>

#include <string>

#include "causeway/base/error.h"

namespace causeway {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string message_of(const std::string& yaml) {
  try {
    parse_yaml(yaml, "x.yaml");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_EQ(error.where(), "x.yaml");
    return error.message();
  }
  return "";
}

TEST(YamlDocument, ReadsOneDocument) {
  const YAML::Node node = parse_yaml("\xEF\xBB\xBF---\na: &x 3\nb: *x\nc: {d: [1, 2]}\ne: 'it''s'\n...\n", "x.yaml");
  EXPECT_EQ(node["b"].Scalar(), "3");
  EXPECT_EQ(node["c"]["d"][1].Scalar(), "2");
  EXPECT_EQ(node["e"].Scalar(), "it's");
  EXPECT_TRUE(parse_yaml("", "x.yaml").IsNull());
  EXPECT_TRUE(parse_yaml("# nothing\n", "x.yaml").IsNull());
}

TEST(YamlDocument, NamesLineAndColumn) {
  EXPECT_THAT(message_of("a: 1\nb: [1, 2\n"), StartsWith("not readable as YAML: "));
  EXPECT_THAT(message_of("a: 1\nb: }\n"), testing::EndsWith("at line 2, column 4"));
}

TEST(YamlDocument, AnAnchorThatContainsItselfIsRefused) {
  for (const char* yaml : {"a: &m\n  b: *m\n", "a: &m [*m]\n", "&m {a: *m}\n", "a: &m {b: {c: [1, *m]}}\n"})
    EXPECT_THAT(message_of(yaml), HasSubstr("an alias of a map or list")) << yaml;
}

TEST(YamlDocument, AliasesThatGrowAreRefused) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int k = 0; k < 9; ++k) bomb += "*a" + std::to_string(i - 1) + (k < 8 ? ", " : "]\n");
  }
  EXPECT_THAT(message_of(bomb), HasSubstr("an alias of a map or list, at line 2"));
  std::string long_value = "a: &a " + std::string(100'000, 'x') + "\n";
  for (int i = 0; i < 1000; ++i) long_value += "b" + std::to_string(i) + ": *a\n";
  EXPECT_THAT(message_of(long_value), HasSubstr("the values have more than 16777216 bytes"));
}

TEST(YamlDocument, DeepNestingIsRefused) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(message_of(nested(32)), "");
  EXPECT_THAT(message_of(nested(33)), HasSubstr("more than 32 maps and lists within one another"));
  EXPECT_NE(message_of(nested(100'000)), "");
  EXPECT_NE(message_of(std::string(100'000, '[')), "");
  EXPECT_NE(message_of(std::string(100'000, '{')), "");
  std::string blocks;
  for (size_t i = 0; i < 2000; ++i) blocks += std::string(i, ' ') + "a:\n";
  EXPECT_NE(message_of(blocks), "");
}

TEST(YamlDocument, ASecondDocumentIsRefused) {
  EXPECT_THAT(message_of("name: x\n---\nname: y\n"), HasSubstr("a second document begins, at line 2"));
  EXPECT_THAT(message_of("name: x\n---\n"), HasSubstr("a second document begins"));
}

TEST(YamlDocument, AQuoteThatIsNeverClosedIsRefused) {
  for (const char* yaml : {"name: \"abc\nmodel:\n  layers: 3\n", "name: 'abc\n", "é: \"é\\\"\n", "a: 'it''s\n",
                           "a: &anchor \"abc\n", "a: !!str 'abc\n", "a: \"abc", "[1, \"a]\n"})
    EXPECT_NE(message_of(yaml), "") << yaml;
  EXPECT_THAT(message_of("é: 1\nname: \"abc\nmodel:\n  layers: 3\n"),
              HasSubstr("a quote that is never closed, at line 2, column 7"));
  for (const char* yaml : {"é: \"é\\\"\"\n", "a: 'it''s'\n", "a: \"x\" # \"\n", "a: it's\n", "\"a\": b'c\n", "a: ''\n"})
    EXPECT_EQ(message_of(yaml), "") << yaml;
}

TEST(YamlDocument, WhatIsNoTextIsRefused) {
  EXPECT_THAT(message_of("a: 1\nb: \x04 2\nc: 3\n"), HasSubstr("the control character \\x04, at line 2, column 4"));
  EXPECT_THAT(message_of(std::string("a: 1\0b: 2\n", 10)), HasSubstr("the control character \\x00"));
  EXPECT_THAT(message_of("a: \xff\n"), HasSubstr("a byte that is not UTF-8, at line 1, column 4"));
  // A byte order mark of UTF-16, and two of its characters.
  EXPECT_THAT(message_of(std::string("\xff\xfe\x61\0:\0", 6)), HasSubstr("not UTF-8"));
  EXPECT_THAT(message_of(std::string(17 << 20, '#')), HasSubstr("at most 16777216 are read"));
}

}  // namespace
}  // namespace causeway
