// Regular expressions as tokenizer.json has them (Oniguruma's syntax), matched by PCRE2 over UTF-8.
//
// Interpreted: literals; escapes of characters; \s \S \d \D \w, \p{..} and \P{..} of general categories and scripts;
// sets without sets inside; groups, alternatives, (?i:..), lookahead, lookbehind and atomic groups; the quantifiers ? *
// + {n} {n,} {n,m}, of which the first three may be lazy or possessive; ^ and $ of a line, \A and \z. What else there
// is (backreferences, intersections, \b, ...) means different things to different engines and is refused by name.
//
// Spaces are the White_Space property. Categories are those of Unicode 16.0, scripts those of PCRE2's version (14.0 in
// Debian 12).
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "causeway/namespaces.h"

namespace causeway::formats {

class RegularExpression {
 public:
  // `where` names the part of the file in errors. Throws Error(kUnsupported) naming what is not interpreted, and
  // Error(kCorrupt) for what is no expression, is longer than kMostBytes, or matches without a character.
  RegularExpression(std::string_view pattern, std::string where);
  // One that matches this text and nothing else; `text` must not be empty.
  static RegularExpression literal(std::string_view text, std::string where);
  RegularExpression(RegularExpression&&) noexcept;
  RegularExpression& operator=(RegularExpression&&) noexcept;
  ~RegularExpression();

  static constexpr size_t kMostBytes = 16384;

  // Calls take(begin, end) for every match in `text`, from left to right, none within another. Where `text` is not
  // UTF-8, as what is decoded may be, no match has bytes that are not.
  // Throws Error(kResource) when that takes more than the current EncodingBudget has. May be called from many threads
  // at once.
  void for_each_match(std::string_view text, const std::function<void(size_t, size_t)>& take) const;

 private:
  struct Compiled;
  RegularExpression(std::unique_ptr<Compiled> compiled, std::string where);

  std::unique_ptr<Compiled> compiled_;
  std::string where_;
};

// The same expression in PCRE2's syntax, for the constructor.
struct TranslatedExpression {
  std::string written;
  // Whether a match has few ways to go: in each alternative at most two quantifiers without a bound and three other
  // choices, and nothing with a choice in it is repeated. Of n bytes it then takes some 4 n^2 steps at most.
  bool has_few_ways = false;
};
TranslatedExpression translate_expression(std::string_view pattern, const std::string& where);

}  // namespace causeway::formats
