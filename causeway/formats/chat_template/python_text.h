// What Python's str does with Unicode text: white space, letter case, character classes. Texts are UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "causeway/namespaces.h"

namespace causeway::formats {

bool is_python_space(uint32_t code_point);      // str.isspace()
bool is_python_printable(uint32_t code_point);  // str.isprintable()

// The first byte at or after `position` that is not of a space.
size_t skip_python_spaces(std::string_view text, size_t position);

// Without the characters of `characters` (of white space, where that is empty) at its beginning and end.
std::string_view python_stripped(std::string_view text, std::string_view characters, bool at_begin, bool at_end);

// str.upper(), lower(), and the first letter of a word for title() and capitalize(): one character, which may become
// several.
std::string upper_character(uint32_t code_point);
std::string lower_character(uint32_t code_point);
std::string title_character(uint32_t code_point);

enum class PythonClass { kAlphabetic, kDecimal, kDigit, kNumeric, kLower, kUpper, kCased };
bool is_python_class(uint32_t code_point, PythonClass wanted);

}  // namespace causeway::formats
