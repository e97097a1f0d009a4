// What tokenizers ask of Unicode beyond the classes of unicode_classes.h: normal forms (UAX #15), lower case, general
// categories. Categories are those of Unicode 16.0. The rest follows the package `tokenizers`, whose parts know other
// versions each (docs/tokenizers.md): tokenizer_unicode.inc has where they differ from utf8proc's. Texts are UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "causeway/namespaces.h"

namespace causeway::formats {

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

std::string normal_form(std::string_view text, NormalForm form);

// Each character by itself: what stands before or after it counts for nothing.
std::string lower_case(std::string_view text);

bool is_accent(uint32_t code_point);       // what StripAccents takes: marks
bool is_punctuation(uint32_t code_point);  // what Punctuation splits at: category P and ASCII's symbols
bool is_word(uint32_t code_point);         // alphabetic, marks, decimal numbers, connecting punctuation and joiners

// The code points whose category is `category` ("Lu", or "L" for all that begin with it) in Unicode 16.0 and was
// another one in 14.0, and the other way around, as ranges in PCRE2's writing for the inside of a set.
struct CategoryChanges {
  std::string joined;
  std::string left;
};
CategoryChanges category_changes(std::string_view category);

// The first byte of `text` that is not UTF-8, or text.size().
size_t first_invalid_byte(std::string_view text);

}  // namespace causeway::formats
