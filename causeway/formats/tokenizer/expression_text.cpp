#include "causeway/formats/tokenizer/expression_text.h"

#include <utility>

#include "causeway/base/error.h"
#include "causeway/base/utf8.h"

namespace causeway::formats {

void ExpressionText::refuse(std::string_view what) const {
  throw Error(
      ErrorKind::kUnsupported,
      fmt::format("{} in the regular expression \"{}\" (byte {}) is not interpreted", what, pattern_, position_),
      where_, "docs/tokenizers.md lists what is.");
}

void ExpressionText::fail(std::string_view what) const {
  throw Error(ErrorKind::kCorrupt,
              fmt::format("the regular expression \"{}\" has {} (byte {})", pattern_, what, position_), where_,
              "Fetch the tokenizer again, or correct the expression.");
}

bool ExpressionText::take(std::string_view text) {
  if (!pattern_.substr(position_).starts_with(text)) return false;
  position_ += text.size();
  return true;
}

uint32_t ExpressionText::take_character() {
  const Utf8Character character = decode_utf8(pattern_, position_);
  if (character.code_point == kInvalidCodePoint) fail("bytes that are not UTF-8");
  position_ += character.size;
  return character.code_point;
}

uint32_t ExpressionText::take_hexadecimal(size_t digits, std::string_view ending) {
  uint32_t value = 0;
  size_t count = 0;
  for (; count < digits; ++count) {
    const char c = peek();
    const int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
    if (digit < 0) break;
    value = value * 16 + static_cast<uint32_t>(digit);
    ++position_;
  }
  if (count == 0 || (ending.empty() && count < digits) || !take(ending) || value > 0x10FFFF ||
      (value >= 0xD800 && value < 0xE000))
    fail("an escape that is no character");
  return value;
}

uint32_t ExpressionText::take_escaped_character() {
  ++position_;
  if (ended()) fail("a backslash at its end");
  if (take("x{")) return take_hexadecimal(6, "}");
  if (take("x")) {
    const uint32_t value = take_hexadecimal(2, "");
    if (value >= 0x80) refuse("a byte beyond ASCII");
    return value;
  }
  if (take("u")) return take_hexadecimal(4, "");
  static constexpr std::pair<char, uint32_t> kControls[] = {{'n', 10}, {'r', 13}, {'t', 9}, {'f', 12},
                                                            {'v', 11}, {'a', 7},  {'e', 27}};
  for (const auto& [letter, value] : kControls)
    if (take(std::string_view(&letter, 1))) return value;
  const char c = peek();
  if ((c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z')) refuse(fmt::format("\"\\{}\"", c));
  return take_character();
}

}  // namespace causeway::formats
