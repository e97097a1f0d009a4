// What Split and Replace look for: {"String": text} or {"Regex": expression}.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "causeway/formats/tokenizer/regular_expression.h"
#include "causeway/formats/tokenizer/tokenizer_part.h"

namespace causeway::formats {

struct Pattern {
  RegularExpression expression;
  std::string written;  // the regular expression as it stands in the file; empty for a text
};

Pattern read_pattern(const TokenizerPart& part);

// `text` with every match replaced by `content`, which is taken as it is.
std::string replace_matches(const Pattern& pattern, std::string_view text, std::string_view content);

}  // namespace causeway::formats
