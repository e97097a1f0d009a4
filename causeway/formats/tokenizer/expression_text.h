// The text of a regular expression, read from its front, and how one is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "causeway/namespaces.h"

namespace causeway::formats {

class ExpressionText {
 public:
  // Both outlive it. `where`: what an error names, the tokenizer's file.
  ExpressionText(std::string_view pattern, const std::string& where) : pattern_(pattern), where_(where) {}

  // Error(kUnsupported): what is in the expression that is not interpreted, and where.
  [[noreturn]] void refuse(std::string_view what) const;
  // Error(kCorrupt): "the regular expression has ...".
  [[noreturn]] void fail(std::string_view what) const;

  bool ended() const { return position_ == pattern_.size(); }
  // '\0' behind the end.
  char peek(size_t ahead = 0) const { return position_ + ahead < pattern_.size() ? pattern_[position_ + ahead] : '\0'; }
  std::string_view rest() const { return pattern_.substr(position_); }
  void skip(size_t bytes) { position_ += bytes; }
  // Whether that comes next, which is read then.
  bool take(std::string_view text);
  uint32_t take_character();
  // A backslash and what it stands before: the character that it means.
  uint32_t take_escaped_character();

 private:
  uint32_t take_hexadecimal(size_t digits, std::string_view ending);

  std::string_view pattern_;
  const std::string& where_;
  size_t position_ = 0;
};

}  // namespace causeway::formats
