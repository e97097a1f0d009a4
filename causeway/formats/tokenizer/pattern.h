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
// Throws Error(kResource) where that makes more than a GiB.
std::string replace_matches(const Pattern& pattern, std::string_view text, std::string_view content);

// Throws Error(kResource) where steps one behind the other have made so many bytes of so many that no tokenizer would:
// a small file can ask for a text to be doubled sixty times.
void require_bounded_growth(size_t before, size_t after);

}  // namespace causeway::formats
