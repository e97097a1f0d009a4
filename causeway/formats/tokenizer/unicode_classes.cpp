#include "causeway/formats/tokenizer/unicode_classes.h"

#include <vector>

namespace causeway::formats {
namespace {

struct CodePointRange {
  uint32_t first;
  uint32_t last;
};

#include "causeway/formats/tokenizer/unicode_ranges.inc"

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

}  // namespace

CharacterClass character_class(uint32_t code_point) {
  static const std::vector<CharacterClass> table = make_table();
  return code_point < kCodePoints ? table[code_point] : CharacterClass::kOther;
}

}  // namespace causeway::formats
