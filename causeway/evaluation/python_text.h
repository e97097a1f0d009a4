// What the evaluation harness's tasks do to texts, as Python's str does it: prompts must agree to the letter. Texts are
// UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "causeway/namespaces.h"

namespace causeway::evaluation {

// str.strip()
std::string_view strip(std::string_view text);
// The bytes that str.rstrip() takes away.
size_t trailing_space(std::string_view text);
// str.capitalize(), but that a letter stays one where Python makes two of it (sharp s).
std::string capitalize(std::string_view text);
// text[0].lower() + text[1:]
std::string with_lower_first(std::string_view text);
// str.replace(from, to)
std::string replace(std::string_view text, std::string_view from, std::string_view to);
// len(text): code points
size_t character_count(std::string_view text);
// Where text[index] begins, or text.size().
size_t byte_of_character(std::string_view text, size_t index);

}  // namespace causeway::evaluation
