#include "causeway/evaluation/python_text.h"

#include <gtest/gtest.h>

namespace causeway::evaluation {
namespace {

TEST(PythonText, SpaceIsWhatPythonTakesForIt) {
  EXPECT_EQ(strip("\t\u00a0 a b\u3000\x1c\n"), "a b");
  EXPECT_EQ(strip("\u200b"), "\u200b");  // of no width, and no space
  EXPECT_EQ(strip(" \n"), "");
  EXPECT_EQ(trailing_space("a \u2003"), 4u);
  EXPECT_EQ(trailing_space("\u00a0"), 2u);
  EXPECT_EQ(trailing_space("é"), 0u);
}

TEST(PythonText, FirstLettersChangeTheirCase) {
  EXPECT_EQ(capitalize("élan in PARIS"), "Élan in paris");
  EXPECT_EQ(capitalize("1ST"), "1st");
  EXPECT_EQ(capitalize(""), "");
  EXPECT_EQ(with_lower_first("Évora Is"), "évora Is");
  EXPECT_EQ(with_lower_first(""), "");
}

TEST(PythonText, CharactersAreCodePoints) {
  EXPECT_EQ(character_count("né 😀"), 4u);
  EXPECT_EQ(byte_of_character("né 😀!", 0), 0u);
  EXPECT_EQ(byte_of_character("né 😀!", 4), 8u);
  EXPECT_EQ(byte_of_character("né 😀!", 9), 9u);
}

TEST(PythonText, ReplacesFromTheFrontWithoutLookingBack) {
  EXPECT_EQ(replace("a    b", "  ", " "), "a  b");
  EXPECT_EQ(replace("aaa", "aa", "b"), "ba");
}

}  // namespace
}  // namespace causeway::evaluation
