// Sets of characters in Oniguruma's syntax, into PCRE2's: what is between brackets, and what has a name (\s, \p{Lu}).
#pragma once

#include <optional>
#include <string>

#include "causeway/formats/tokenizer/expression_text.h"

namespace causeway::formats {

// \s, \p{..} and so on where `text` stands, to be used alone or inside of brackets; nothing where none is there.
std::optional<std::string> translate_named_set(ExpressionText& text, bool in_brackets);

// From the opening bracket to the closing one. `caseless`: letters are compared without regard to case.
std::string translate_set(ExpressionText& text, bool caseless);

// A character, written so that it means nothing else.
std::string translate_character(uint32_t code_point);

}  // namespace causeway::formats
