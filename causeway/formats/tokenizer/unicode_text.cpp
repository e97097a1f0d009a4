#include "causeway/formats/tokenizer/unicode_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/base/utf8.h"

namespace causeway::formats {
namespace {

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char byte) { return static_cast<unsigned char>(byte) < 0x80; });
}

// Sorts each run of combining characters by class. utf8proc's own sorting takes quadratic time.
void order_canonically(std::vector<utf8proc_int32_t>& characters) {
  std::vector<std::tuple<int, size_t, utf8proc_int32_t>> order;
  const auto combining_class = [](utf8proc_int32_t c) -> int { return utf8proc_get_property(c)->combining_class; };
  for (size_t begin = 0; begin < characters.size();) {
    if (combining_class(characters[begin]) == 0) {
      ++begin;
      continue;
    }
    size_t end = begin + 1;
    while (end < characters.size() && combining_class(characters[end]) != 0) ++end;
    order.clear();
    for (size_t i = begin; i < end; ++i) order.emplace_back(combining_class(characters[i]), i, characters[i]);
    std::ranges::sort(order);
    for (size_t i = begin; i < end; ++i) characters[i] = std::get<2>(order[i - begin]);
    begin = end;
  }
}

utf8proc_category_t category(uint32_t code_point) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
}

}  // namespace

std::string normal_form(std::string_view text, NormalForm form) {
  if (is_ascii(text)) return std::string(text);
  const bool compatible = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  const bool composed = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  const auto options =
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0));
  std::vector<utf8proc_int32_t> characters;
  characters.reserve(text.size());
  for (size_t position = 0; position < text.size();) {
    const Utf8Character character = decode_utf8(text, position);
    position += character.size;
    std::array<utf8proc_int32_t, 32> parts{};
    int boundary_class = 0;
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(character.code_point), parts.data(),
                                static_cast<utf8proc_ssize_t>(parts.size()), options, &boundary_class);
    CAUSEWAY_CHECK(count >= 0 && count <= static_cast<utf8proc_ssize_t>(parts.size()));
    characters.insert(characters.end(), parts.begin(), parts.begin() + count);
  }
  order_canonically(characters);
  if (composed) {
    const utf8proc_ssize_t count =
        utf8proc_normalize_utf32(characters.data(), static_cast<utf8proc_ssize_t>(characters.size()),
                                 static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    CAUSEWAY_CHECK(count >= 0);
    characters.resize(static_cast<size_t>(count));
  }
  std::string result;
  result.reserve(text.size());
  for (const utf8proc_int32_t character : characters) append_utf8(result, static_cast<uint32_t>(character));
  return result;
}

std::string lower_case(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (size_t position = 0; position < text.size();) {
    const Utf8Character character = decode_utf8(text, position);
    position += character.size;
    // The one character whose lower case is two, whatever stands around it.
    if (character.code_point == 0x130) {
      result += "i\xCC\x87";
    } else {
      append_utf8(result, static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(character.code_point))));
    }
  }
  return result;
}

bool is_mark(uint32_t code_point) {
  const utf8proc_category_t found = category(code_point);
  return found >= UTF8PROC_CATEGORY_MN && found <= UTF8PROC_CATEGORY_ME;
}

bool is_punctuation(uint32_t code_point) {
  if (code_point < 0x80) {
    return (code_point >= '!' && code_point <= '/') || (code_point >= ':' && code_point <= '@') ||
           (code_point >= '[' && code_point <= '`') || (code_point >= '{' && code_point <= '~');
  }
  const utf8proc_category_t found = category(code_point);
  return found >= UTF8PROC_CATEGORY_PC && found <= UTF8PROC_CATEGORY_PO;
}

bool is_word(uint32_t code_point) {
  const utf8proc_category_t found = category(code_point);
  return (found >= UTF8PROC_CATEGORY_LU && found <= UTF8PROC_CATEGORY_LO) || is_mark(code_point) ||
         found == UTF8PROC_CATEGORY_ND || found == UTF8PROC_CATEGORY_NL || found == UTF8PROC_CATEGORY_PC ||
         code_point == 0x200C || code_point == 0x200D || (code_point >= 0x24B6 && code_point <= 0x24E9) ||
         (code_point >= 0x1F130 && code_point <= 0x1F149) || (code_point >= 0x1F150 && code_point <= 0x1F169) ||
         (code_point >= 0x1F170 && code_point <= 0x1F189);
}

std::string unicode_text_version() { return utf8proc_unicode_version(); }

size_t first_invalid_byte(std::string_view text) {
  for (size_t position = 0; position < text.size();) {
    if (static_cast<unsigned char>(text[position]) < 0x80) {
      ++position;
      continue;
    }
    const Utf8Character character = decode_utf8(text, position);
    if (character.code_point == kInvalidCodePoint) return position;
    position += character.size;
  }
  return text.size();
}

}  // namespace causeway::formats
