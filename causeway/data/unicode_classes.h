// The Unicode character classes that byte-level tokenizers split text by, and the UTF-8 decoding beneath them.
// Letters are general category L, numbers N, spaces the White_Space property, all of Unicode 16.0; every other code
// point, assigned or not, is kOther.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace causeway {

enum class CharacterClass : uint8_t { kOther = 0, kLetter = 1, kNumber = 2, kSpace = 3 };

// The class of a code point; kOther beyond U+10FFFF.
CharacterClass character_class(uint32_t code_point);

struct Utf8Character {
  uint32_t code_point = 0;  // kInvalidCodePoint where the bytes are not UTF-8
  uint32_t size = 0;        // bytes taken; an invalid byte is taken alone
};

constexpr uint32_t kInvalidCodePoint = 0xFFFFFFFF;

// The character at `position`, which must be inside `text`. Overlong forms, surrogates and code points beyond U+10FFFF
// are invalid (RFC 3629).
Utf8Character decode_utf8(std::string_view text, size_t position);

void append_utf8(std::string& text, uint32_t code_point);

}  // namespace causeway
