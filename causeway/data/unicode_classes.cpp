#include "causeway/data/unicode_classes.h"

#include <vector>

namespace causeway {
namespace {

struct CodePointRange {
  uint32_t first;
  uint32_t last;
};

#include "causeway/data/unicode_ranges.inc"

constexpr CodePointRange kSpaceRanges[] = {
    {0x9, 0xD},       {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},     {0x1680, 0x1680},
    {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000},
};

constexpr uint32_t kCodePoints = 0x110000;

template <size_t kCount>
void mark(std::vector<CharacterClass>& table, const CodePointRange (&ranges)[kCount], CharacterClass value) {
  for (const CodePointRange& range : ranges) {
    for (uint32_t code_point = range.first; code_point <= range.last; ++code_point) table[code_point] = value;
  }
}

std::vector<CharacterClass> make_table() {
  std::vector<CharacterClass> table(kCodePoints, CharacterClass::kOther);
  mark(table, kLetterRanges, CharacterClass::kLetter);
  mark(table, kNumberRanges, CharacterClass::kNumber);
  mark(table, kSpaceRanges, CharacterClass::kSpace);
  return table;
}

bool is_continuation(std::string_view text, size_t position) {
  return position < text.size() && (static_cast<unsigned char>(text[position]) & 0xC0) == 0x80;
}

uint32_t payload(std::string_view text, size_t position) { return static_cast<unsigned char>(text[position]) & 0x3F; }

}  // namespace

CharacterClass character_class(uint32_t code_point) {
  static const std::vector<CharacterClass> table = make_table();
  return code_point < kCodePoints ? table[code_point] : CharacterClass::kOther;
}

Utf8Character decode_utf8(std::string_view text, size_t position) {
  const uint32_t lead = static_cast<unsigned char>(text[position]);
  if (lead < 0x80) return {lead, 1};
  if (lead >= 0xC2 && lead < 0xE0 && is_continuation(text, position + 1)) {
    return {(lead & 0x1F) << 6 | payload(text, position + 1), 2};
  }
  if ((lead & 0xF0) == 0xE0 && is_continuation(text, position + 1) && is_continuation(text, position + 2)) {
    const uint32_t value = (lead & 0x0F) << 12 | payload(text, position + 1) << 6 | payload(text, position + 2);
    if (value >= 0x800 && (value < 0xD800 || value > 0xDFFF)) return {value, 3};
  }
  if ((lead & 0xF8) == 0xF0 && is_continuation(text, position + 1) && is_continuation(text, position + 2) &&
      is_continuation(text, position + 3)) {
    const uint32_t value = (lead & 0x07) << 18 | payload(text, position + 1) << 12 | payload(text, position + 2) << 6 |
                           payload(text, position + 3);
    if (value >= 0x10000 && value < kCodePoints) return {value, 4};
  }
  return {kInvalidCodePoint, 1};
}

void append_utf8(std::string& text, uint32_t code_point) {
  if (code_point < 0x80) {
    text.push_back(static_cast<char>(code_point));
  } else if (code_point < 0x800) {
    text.push_back(static_cast<char>(0xC0 | code_point >> 6));
    text.push_back(static_cast<char>(0x80 | (code_point & 0x3F)));
  } else if (code_point < 0x10000) {
    text.push_back(static_cast<char>(0xE0 | code_point >> 12));
    text.push_back(static_cast<char>(0x80 | (code_point >> 6 & 0x3F)));
    text.push_back(static_cast<char>(0x80 | (code_point & 0x3F)));
  } else {
    text.push_back(static_cast<char>(0xF0 | code_point >> 18));
    text.push_back(static_cast<char>(0x80 | (code_point >> 12 & 0x3F)));
    text.push_back(static_cast<char>(0x80 | (code_point >> 6 & 0x3F)));
    text.push_back(static_cast<char>(0x80 | (code_point & 0x3F)));
  }
}

}  // namespace causeway
