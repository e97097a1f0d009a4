#include "causeway/evaluation/python_text.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <functional>
#include <map>
#include <vector>

#include "causeway/base/utf8.h"

namespace causeway::evaluation {
namespace {

#include "tests/evaluation/python_text_digests.inc"

TEST(PythonText, SpaceIsWhatPythonTakesForIt) {
  EXPECT_EQ(strip("\t\u00a0 a b\u3000\x1c\n"), "a b");
  EXPECT_EQ(strip("\u200b"), "\u200b");  // of no width, and no space
  EXPECT_EQ(strip(" \n"), "");
  EXPECT_EQ(trailing_space("a \u2003"), 4u);
  EXPECT_EQ(trailing_space("\u00a0"), 2u);
  EXPECT_EQ(trailing_space("é"), 0u);
  EXPECT_EQ(first_word("\u00a0The\u3000old man"), "The");
  EXPECT_EQ(first_word(" \t"), "");
}

TEST(PythonText, FirstLettersChangeTheirCase) {
  EXPECT_EQ(capitalize("élan in PARIS"), "Élan in paris");
  EXPECT_EQ(capitalize("1ST"), "1st");
  EXPECT_EQ(capitalize("ßA"), "Ssa");
  EXPECT_EQ(capitalize("ǆep"), "ǅep");
  EXPECT_EQ(capitalize("ΣΑΣ ΟΣ!"), "Σας ος!");
  EXPECT_EQ(capitalize(""), "");
  EXPECT_EQ(with_lower_first("Évora Is"), "évora Is");
  EXPECT_EQ(with_lower_first("İZ"), "i\u0307Z");
  EXPECT_EQ(with_lower_first(""), "");
  EXPECT_EQ(lower("ΟΔΟΣ ΣΑΝ Σ"), "οδος σαν σ");
}

TEST(PythonText, CharactersAreCodePoints) {
  EXPECT_EQ(character_count("né 😀"), 4u);
  EXPECT_EQ(byte_of_character("né 😀!", 0), 0u);
  EXPECT_EQ(byte_of_character("né 😀!", 4), 8u);
  EXPECT_EQ(byte_of_character("né 😀!", 9), 9u);
  EXPECT_EQ(without_last("又肿。"), "又肿");
  EXPECT_EQ(without_last("e\u0301"), "e");
  EXPECT_EQ(without_last(""), "");
}

TEST(PythonText, ReplacesFromTheFrontWithoutLookingBack) {
  EXPECT_EQ(replace("a    b", "  ", " "), "a  b");
  EXPECT_EQ(replace("aaa", "aa", "b"), "ba");
  EXPECT_EQ(without_brackets("a[b]c[\n]d[[e]]f["), "ac[\n]d]f[");
}

// SplitMix64, and texts of pieces: as tools/make_python_text.py draws them.
class Draws {
 public:
  explicit Draws(uint64_t seed) : state_(seed) {}

  std::string text() {
    std::string text;
    for (uint64_t left = next() % 8; left > 0; --left) {
      const uint64_t drawn = next();
      if (drawn % 8 != 0) {
        text += kPieces[(drawn >> 8) % kPieces.size()];
        continue;
      }
      const auto code_point = static_cast<uint32_t>((drawn >> 8) % ((drawn & 128) != 0 ? 0x110000 : 0x3000));
      append_utf8(text, code_point >= 0xD800 && code_point < 0xE000 ? '?' : code_point);
    }
    return text;
  }

 private:
  uint64_t next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

  uint64_t state_;
};

// A million texts: Unicode's spaces, special casing, combining marks, and all other code points.
TEST(PythonText, IsPythonsOnGeneratedTexts) {
  using Operation = std::function<std::string(const std::string&)>;
  const std::map<std::string, Operation> operations = {
      {"text", [](const std::string& text) { return text; }},
      {"strip", [](const std::string& text) { return std::string(strip(text)); }},
      {"rstrip", [](const std::string& text) { return text.substr(0, text.size() - trailing_space(text)); }},
      {"without_last", [](const std::string& text) { return std::string(without_last(text)); }},
      {"first_word", [](const std::string& text) { return std::string(first_word(text)); }},
      {"lower", [](const std::string& text) { return lower(text); }},
      {"capitalize", [](const std::string& text) { return capitalize(text); }},
      {"with_lower_first", [](const std::string& text) { return with_lower_first(text); }},
      {"replace", [](const std::string& text) { return replace(replace(text, " [title]", ". "), "  ", " "); }},
      {"without_brackets", [](const std::string& text) { return without_brackets(text); }},
      {"half",
       [](const std::string& text) { return text.substr(0, byte_of_character(text, character_count(text) / 2)); }}};
  ASSERT_EQ(operations.size(), kDigests.size());
  Draws draws(62);
  for (size_t block = 0; block < kDigests.at("text").size(); ++block) {
    std::map<std::string, uLong> digests;
    for (size_t i = 0; i < kBlock; ++i) {
      const std::string text = draws.text();
      for (const auto& [name, operation] : operations) {
        const std::string result = operation(text);
        uLong& digest = digests[name];
        digest = crc32(digest, reinterpret_cast<const Bytef*>(result.c_str()), static_cast<uInt>(result.size() + 1));
      }
    }
    for (const auto& [name, digest] : digests)
      ASSERT_EQ(digest, kDigests.at(name)[block]) << name << ", block " << block;
  }
}

}  // namespace
}  // namespace causeway::evaluation
