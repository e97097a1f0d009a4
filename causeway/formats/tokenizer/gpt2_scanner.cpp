#include "causeway/formats/tokenizer/gpt2_scanner.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "causeway/base/utf8.h"
#include "causeway/formats/tokenizer/unicode_classes.h"

namespace causeway::formats {
namespace {

struct ScannedCharacter {
  CharacterClass character_class;
  uint32_t size;
};

constexpr std::array<CharacterClass, 128> make_ascii_classes() {
  std::array<CharacterClass, 128> classes{};
  for (int c = 0; c < 128; ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool number = c >= '0' && c <= '9';
    const bool space = c == ' ' || (c >= 9 && c <= 13);
    classes[static_cast<size_t>(c)] = letter   ? CharacterClass::kLetter
                                      : number ? CharacterClass::kNumber
                                      : space  ? CharacterClass::kSpace
                                               : CharacterClass::kOther;
  }
  return classes;
}

constexpr std::array<CharacterClass, 128> kAsciiClasses = make_ascii_classes();

ScannedCharacter scan(std::string_view text, size_t position) {
  const auto byte = static_cast<unsigned char>(text[position]);
  if (byte < 0x80) return {kAsciiClasses[byte], 1};
  const Utf8Character character = decode_utf8(text, position);
  return {character_class(character.code_point), character.size};
}

// The size of the contraction at `position`, or 0.
size_t contraction_size(std::string_view text, size_t position) {
  const std::string_view rest = text.substr(position, 3);
  if (rest.size() < 2 || rest[0] != '\'') return 0;
  if (rest[1] == 's' || rest[1] == 't' || rest[1] == 'm' || rest[1] == 'd') return 2;
  return rest == "'re" || rest == "'ve" || rest == "'ll" ? 3 : 0;
}

}  // namespace

size_t gpt2_piece_size(std::string_view text, size_t position) {
  if (const size_t size = contraction_size(text, position); size != 0) return size;
  ScannedCharacter current = scan(text, position);
  size_t end = position + current.size;
  if (text[position] == ' ' && end < text.size()) {
    const ScannedCharacter next = scan(text, end);
    if (next.character_class != CharacterClass::kSpace) {
      current = next;
      end += next.size;
    }
  }
  const CharacterClass run_class = current.character_class;
  size_t last_start = end - current.size;
  while (end < text.size()) {
    const ScannedCharacter next = scan(text, end);
    if (next.character_class != run_class) {
      // \s+(?!\S): a run of spaces leaves its last one to the word that follows, unless it is the only one.
      return (run_class == CharacterClass::kSpace && last_start > position ? last_start : end) - position;
    }
    last_start = end;
    end += next.size;
  }
  return end - position;
}

namespace {

// `text` is not empty. Every byte that can lead a character begins one, so the last character is looked for from
// behind.
bool ends_with_space(std::string_view text) {
  size_t start = text.size() - 1;
  while (start > 0 && text.size() - start < 4 && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
  const Utf8Character last = decode_utf8(text, start);
  return start + last.size == text.size() && character_class(last.code_point) == CharacterClass::kSpace;
}

}  // namespace

size_t gpt2_cut_position(std::string_view text, size_t from) {
  for (size_t position = std::max<size_t>(from, 1); position < text.size(); ++position) {
    if ((text[position] == ' ' || text[position] == '\n') && !ends_with_space(text.substr(0, position)))
      return position;
  }
  return text.size();
}

}  // namespace causeway::formats
