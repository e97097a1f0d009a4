#include "causeway/formats/chat_template/python_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>

#include "causeway/base/utf8.h"

namespace causeway::formats {
namespace {

struct SpecialCase {
  uint32_t character;
  std::string_view upper, title;
};
constexpr SpecialCase kSpecialCases[] = {
#include "causeway/formats/chat_template/special_casing.inc"
};

const SpecialCase* special_case(uint32_t code_point) {
  const auto* found = std::ranges::lower_bound(kSpecialCases, code_point, {}, &SpecialCase::character);
  return found == std::end(kSpecialCases) || found->character != code_point ? nullptr : found;
}

std::string utf8_of(int32_t code_point) {
  std::string result;
  append_utf8(result, static_cast<uint32_t>(code_point));
  return result;
}

bool contains_character(std::string_view characters, std::string_view character) {
  for (size_t at = 0; at < characters.size();) {
    const size_t size = decode_utf8(characters, at).size;
    if (characters.substr(at, size) == character) return true;
    at += size;
  }
  return false;
}

// Where the character that ends at `end` begins.
size_t character_before(std::string_view text, size_t end) {
  for (size_t size = std::min<size_t>(4, end); size > 1; --size)
    if (decode_utf8(text, end - size).size == size) return end - size;
  return end - 1;
}

bool is_stripped(std::string_view character, std::string_view characters) {
  return characters.empty() ? is_python_space(decode_utf8(character, 0).code_point)
                            : contains_character(characters, character);
}

}  // namespace

bool is_python_space(uint32_t c) {
  if (c < 0x80) return (c >= 9 && c <= 13) || (c >= 28 && c <= 32);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_python_printable(uint32_t code_point) {
  if (code_point < 0x7F) return code_point >= 0x20;
  switch (utf8proc_category(static_cast<int32_t>(code_point))) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
      return false;
    default:
      return true;
  }
}

size_t skip_python_spaces(std::string_view text, size_t position) {
  while (position < text.size()) {
    const Utf8Character character = decode_utf8(text, position);
    if (!is_python_space(character.code_point)) break;
    position += character.size;
  }
  return position;
}

std::string_view python_stripped(std::string_view text, std::string_view characters, bool at_begin, bool at_end) {
  while (at_begin && !text.empty()) {
    const size_t size = decode_utf8(text, 0).size;
    if (!is_stripped(text.substr(0, size), characters)) break;
    text.remove_prefix(size);
  }
  while (at_end && !text.empty()) {
    const size_t begin = character_before(text, text.size());
    if (!is_stripped(text.substr(begin), characters)) break;
    text = text.substr(0, begin);
  }
  return text;
}

std::string upper_character(uint32_t code_point) {
  if (const SpecialCase* special = special_case(code_point)) return std::string(special->upper);
  return utf8_of(utf8proc_toupper(static_cast<int32_t>(code_point)));
}

std::string lower_character(uint32_t code_point) {
  if (code_point == 0x130) return "i\u0307";
  return utf8_of(utf8proc_tolower(static_cast<int32_t>(code_point)));
}

std::string title_character(uint32_t code_point) {
  if (const SpecialCase* special = special_case(code_point)) return std::string(special->title);
  return utf8_of(utf8proc_totitle(static_cast<int32_t>(code_point)));
}

bool is_python_class(uint32_t code_point, PythonClass wanted) {
  const auto c = static_cast<int32_t>(code_point);
  const utf8proc_category_t category = utf8proc_category(c);
  const bool is_lower = utf8proc_islower(c) != 0, is_upper = utf8proc_isupper(c) != 0;
  switch (wanted) {
    case PythonClass::kAlphabetic:
      return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
    case PythonClass::kDecimal:
      return category == UTF8PROC_CATEGORY_ND;
    case PythonClass::kDigit:  // superscripts too
      return category == UTF8PROC_CATEGORY_ND || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 ||
             (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089);
    case PythonClass::kNumeric:
      return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_NO;
    case PythonClass::kLower:
      return is_lower;
    case PythonClass::kUpper:
      return is_upper;
    case PythonClass::kCased:
      return is_lower || is_upper || category == UTF8PROC_CATEGORY_LT;
  }
  return false;
}

}  // namespace causeway::formats
