// What tokenizers ask of Unicode beyond the classes of unicode_classes.h: normal forms (UAX #15), lower case, general
// categories. By utf8proc, in its Unicode version (unicode_text_version()). Texts are UTF-8.
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

bool is_mark(uint32_t code_point);         // category M
bool is_punctuation(uint32_t code_point);  // category P, or one of ASCII's !"#$%&'()*+,-./:;<=>?@[\]^_`{|}~
bool is_word(uint32_t code_point);         // letters, marks, decimal numbers, connecting punctuation and joiners

// As "15.0.0".
std::string unicode_text_version();

// The first byte of `text` that is not UTF-8, or text.size().
size_t first_invalid_byte(std::string_view text);

}  // namespace causeway::formats
