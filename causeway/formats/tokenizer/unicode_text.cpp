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

struct CodePoints {
  uint32_t first;
  uint32_t last;
};
struct CodePointsThatAre {
  uint32_t first;
  uint32_t last;
  bool are;
};
struct LowerCase {
  uint32_t first;
  uint32_t last;
  int32_t offset;
};
struct CategoryChange {
  uint32_t first;
  uint32_t last;
  utf8proc_category_t before;
  utf8proc_category_t after;
};

#include "causeway/formats/tokenizer/tokenizer_unicode.inc"

// The entry that covers a code point; null when there is none. Entries are in order.
template <class Entry, size_t kCount>
const Entry* find_entry(const Entry (&entries)[kCount], uint32_t code_point) {
  const Entry* found = std::ranges::lower_bound(entries, code_point, {}, &Entry::last);
  return found != std::end(entries) && found->first <= code_point ? found : nullptr;
}

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
  const CategoryChange* change = find_entry(kCategoryChanges, code_point);
  return change != nullptr ? change->after : utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
}

bool is_mark(utf8proc_category_t category) {
  return category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME;
}

void append_normal_form(std::string& result, std::vector<utf8proc_int32_t>& characters, NormalForm form) {
  order_canonically(characters);
  if (form == NormalForm::kNfc || form == NormalForm::kNfkc) {
    const utf8proc_ssize_t count =
        utf8proc_normalize_utf32(characters.data(), static_cast<utf8proc_ssize_t>(characters.size()),
                                 static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    CAUSEWAY_CHECK(count >= 0);
    characters.resize(static_cast<size_t>(count));
  }
  for (const utf8proc_int32_t character : characters) append_utf8(result, static_cast<uint32_t>(character));
  characters.clear();
}

}  // namespace

std::string normal_form(std::string_view text, NormalForm form) {
  if (is_ascii(text)) return std::string(text);
  const bool compatible = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  const auto options =
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0));
  std::string result;
  result.reserve(text.size());
  std::vector<utf8proc_int32_t> characters;
  for (size_t position = 0; position < text.size();) {
    const Utf8Character character = decode_utf8(text, position);
    position += character.size;
    if (find_entry(kUnknownToNormalForms, character.code_point) != nullptr) {
      append_normal_form(result, characters, form);
      append_utf8(result, character.code_point);
      continue;
    }
    std::array<utf8proc_int32_t, 32> parts{};
    int boundary_class = 0;
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(character.code_point), parts.data(),
                                static_cast<utf8proc_ssize_t>(parts.size()), options, &boundary_class);
    CAUSEWAY_CHECK(count >= 0 && count <= static_cast<utf8proc_ssize_t>(parts.size()));
    characters.insert(characters.end(), parts.begin(), parts.begin() + count);
  }
  append_normal_form(result, characters, form);
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
      const auto code_point = static_cast<utf8proc_int32_t>(character.code_point);
      const LowerCase* change = find_entry(kLowerCaseChanges, character.code_point);
      append_utf8(result, static_cast<uint32_t>(change != nullptr ? code_point + change->offset
                                                                  : utf8proc_tolower(code_point)));
    }
  }
  return result;
}

bool is_accent(uint32_t code_point) {
  const CodePointsThatAre* change = find_entry(kMarkChanges, code_point);
  return change != nullptr ? change->are : is_mark(category(code_point));
}

bool is_punctuation(uint32_t code_point) {
  if (code_point < 0x80) {
    return (code_point >= '!' && code_point <= '/') || (code_point >= ':' && code_point <= '@') ||
           (code_point >= '[' && code_point <= '`') || (code_point >= '{' && code_point <= '~');
  }
  if (const CodePointsThatAre* change = find_entry(kPunctuationChanges, code_point)) return change->are;
  const utf8proc_category_t found = category(code_point);
  return found >= UTF8PROC_CATEGORY_PC && found <= UTF8PROC_CATEGORY_PO;
}

bool is_word(uint32_t code_point) {
  // Alphabetic beyond letters, marks and letter numbers: circled and squared letters.
  static constexpr CodePoints kFurther[] = {
      {0x200C, 0x200D}, {0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};
  const utf8proc_category_t found = category(code_point);
  return (found >= UTF8PROC_CATEGORY_LU && found <= UTF8PROC_CATEGORY_LO) || is_mark(found) ||
         found == UTF8PROC_CATEGORY_ND || found == UTF8PROC_CATEGORY_NL || found == UTF8PROC_CATEGORY_PC ||
         find_entry(kFurther, code_point) != nullptr;
}

CategoryChanges category_changes(std::string_view category) {
  static constexpr std::string_view kNames[] = {"Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd",
                                                "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm",
                                                "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co"};
  CategoryChanges changes;
  for (const CategoryChange& change : kCategoryChanges) {
    const bool before = kNames[change.before].starts_with(category);
    const bool after = kNames[change.after].starts_with(category);
    if (before == after) continue;
    (after ? changes.joined : changes.left) += fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", change.first, change.last);
  }
  return changes;
}

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
