// The writing of bytes that byte-level vocabularies use (openai/gpt-2, src/encoder.py): each byte is one printable
// character, itself where it is visible Latin-1, else the next one from U+0100 on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "causeway/namespaces.h"

namespace causeway::formats {

// The character of a byte, in UTF-8.
std::string_view byte_character(unsigned char byte);

// Every byte of `bytes` in this writing, appended to `text`.
void append_byte_characters(std::string& text, std::string_view bytes);

// The bytes that `written` stands for; nothing when one of its characters stands for no byte.
std::optional<std::string> bytes_of_characters(std::string_view written);

}  // namespace causeway::formats
