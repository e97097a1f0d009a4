// UTF-8 (RFC 3629): one character at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace causeway {

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
