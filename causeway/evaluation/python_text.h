// What the evaluation harness's tasks do to texts, as Python's str does it: prompts must agree to the letter. Texts are
// UTF-8, positions and lengths are in code points. Letters are those of Unicode 14.0, as in Python 3.11.
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
// text[:-1]; of an empty text nothing is left.
std::string_view without_last(std::string_view text);
// text.split()[0], or nothing where there is only space.
std::string_view first_word(std::string_view text);
// str.lower(): a sigma at the end of a word is another than within one.
std::string lower(std::string_view text);
// str.capitalize(): one letter may become two or three (sharp s, ligatures).
std::string capitalize(std::string_view text);
// text[0].lower() + text[1:]
std::string with_lower_first(std::string_view text);
// str.replace(from, to), `from` not empty.
std::string replace(std::string_view text, std::string_view from, std::string_view to);
// re.sub("\\[.*?\\]", "", text)
std::string without_brackets(std::string_view text);
// len(text)
size_t character_count(std::string_view text);
// Where text[index] begins, or text.size().
size_t byte_of_character(std::string_view text, size_t index);

}  // namespace causeway::evaluation
