#include "causeway/base/printable_text.h"

#include <fmt/format.h>

#include <cstdint>

namespace causeway {
namespace {

struct Character {
  uint32_t code = 0;
  size_t bytes = 0;  // 0: not UTF-8
};

// RFC 3629: the shortest form, no surrogates, nothing above U+10FFFF.
Character character_at(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {first, 1};
  const size_t bytes = first >= 0xc2 && first < 0xe0   ? 2
                       : (first & 0xf0) == 0xe0        ? 3
                       : first >= 0xf0 && first < 0xf5 ? 4
                                                       : 0;
  if (bytes == 0 || text.size() < bytes) return {};
  uint32_t code = first & (0x7fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kSmallest[bytes] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return {};
  return {code, bytes};
}

bool is_unfit(uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) ||                              // controls
         code == 0x61c || (code >= 0x200b && code <= 0x200f) ||                       // invisible, direction
         (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f) ||  // separators, embeddings
         code == 0xfeff || (code >= 0xfff9 && code <= 0xfffb) || code >= 0xe0000;     // marks, tags, private use
}

}  // namespace

std::string printable(std::string_view text, LineBreaks breaks) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const Character character = character_at(text);
    const size_t bytes = character.bytes == 0 ? 1 : character.bytes;
    if (character.bytes == 0) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    } else if (!is_unfit(character.code) ||
               (breaks == LineBreaks::kKeep && (character.code == '\n' || character.code == '\t'))) {
      result += text.substr(0, bytes);
    } else if (character.code == '\n') {
      result += "\\n";
    } else if (character.code == '\r') {
      result += "\\r";
    } else if (character.code == '\t') {
      result += "\\t";
    } else {
      result +=
          character.code < 0x100 ? fmt::format("\\x{:02x}", character.code) : fmt::format("\\u{:04x}", character.code);
    }
    text.remove_prefix(bytes);
  }
  return result;
}

size_t display_width(std::string_view text) {
  size_t width = 0;
  while (!text.empty()) {
    const Character character = character_at(text);
    if (character.code < 0x300 || character.code >= 0x370) ++width;
    text.remove_prefix(character.bytes == 0 ? 1 : character.bytes);
  }
  return width;
}

}  // namespace causeway
