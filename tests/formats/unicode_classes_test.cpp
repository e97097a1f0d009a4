#include "causeway/formats/tokenizer/unicode_classes.h"

#include <gtest/gtest.h>

#include <string>

#include "causeway/base/utf8.h"

namespace causeway::formats {
namespace {

TEST(UnicodeClasses, KnowsCharactersOfEachClass) {
  for (const uint32_t letter : {0x61u, 0xE9u, 0x2B0u, 0x1C5u, 0x5D0u, 0x4F60u, 0xAC00u, 0x10400u, 0x1D400u, 0x20000u}) {
    EXPECT_EQ(character_class(letter), CharacterClass::kLetter) << std::hex << letter;
  }
  for (const uint32_t number : {0x30u, 0xB2u, 0xBDu, 0x661u, 0x2167u, 0x2460u, 0x3007u, 0x1D7CEu}) {
    EXPECT_EQ(character_class(number), CharacterClass::kNumber) << std::hex << number;
  }
  for (const uint32_t space : {0x9u, 0xDu, 0x20u, 0x85u, 0xA0u, 0x1680u, 0x2003u, 0x2028u, 0x202Fu, 0x205Fu, 0x3000u}) {
    EXPECT_EQ(character_class(space), CharacterClass::kSpace) << std::hex << space;
  }
  for (const uint32_t other : {0x0u, 0x1Cu, 0x27u, 0x301u, 0x180Eu, 0x200Bu, 0x2019u, 0xFEFFu, 0x1F600u, 0x10FFFFu,
                               0x110000u, kInvalidCodePoint}) {
    EXPECT_EQ(character_class(other), CharacterClass::kOther) << std::hex << other;
  }
}

TEST(UnicodeClasses, EveryCodePointSurvivesEncodingAndDecoding) {
  std::string text;
  for (uint32_t code_point = 0; code_point < 0x110000; ++code_point) {
    if (code_point >= 0xD800 && code_point <= 0xDFFF) continue;
    text.clear();
    append_utf8(text, code_point);
    const Utf8Character character = decode_utf8(text, 0);
    ASSERT_EQ(character.code_point, code_point);
    ASSERT_EQ(character.size, text.size());
  }
}

TEST(UnicodeClasses, InvalidBytesAreTakenOneAtATime) {
  for (const std::string text : {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xC3", "\xC3(", "\xE0\x80\x80",
                                 "\xE0\x9F\xBF", "\xED\xA0\x80", "\xED\xBF\xBF", "\xE2\x82", "\xF0\x8F\xBF\xBF",
                                 "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xF0\x9F\x98", "\xFE", "\xFF"}) {
    const Utf8Character character = decode_utf8(text, 0);
    EXPECT_EQ(character.code_point, kInvalidCodePoint);
    EXPECT_EQ(character.size, 1u);
  }
}

}  // namespace
}  // namespace causeway::formats
