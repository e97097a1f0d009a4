#include "causeway/base/printable.h"

#include <fmt/format.h>

#include <iterator>

#include "causeway/base/utf8.h"

namespace causeway {
namespace {

// Marks and embeddings of the bidirectional algorithm (Unicode Standard Annex 9).
bool turns_direction(uint32_t c) {
  return c == 0x061C || c == 0x200E || c == 0x200F || (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
}

bool is_visible(uint32_t c, Whitespace allowed) {
  if (c == '\n' || c == '\t') return allowed == Whitespace::kLinesAndTabs;
  return c != kInvalidCodePoint && c >= 0x20 && (c < 0x7F || c > 0x9F) && c != 0x2028 && c != 0x2029 &&
         !turns_direction(c);
}

std::string escape(uint32_t c, char first_byte) {
  if (c == '\n') return "\\n";
  if (c == '\r') return "\\r";
  if (c == '\t') return "\\t";
  if (c < 0x80 || c == kInvalidCodePoint) return fmt::format("\\x{:02x}", static_cast<unsigned char>(first_byte));
  return fmt::format("\\u{:04x}", c);
}

}  // namespace

std::string printable(std::string_view text, Whitespace allowed) {
  std::string result;
  result.reserve(text.size());
  for (size_t position = 0; position < text.size();) {
    const Utf8Character character = decode_utf8(text, position);
    if (is_visible(character.code_point, allowed))
      result += text.substr(position, character.size);
    else
      result += escape(character.code_point, text[position]);
    position += character.size;
  }
  return result;
}

bool is_printable(std::string_view text, Whitespace allowed) {
  for (size_t position = 0; position < text.size();) {
    const Utf8Character character = decode_utf8(text, position);
    if (!is_visible(character.code_point, allowed)) return false;
    position += character.size;
  }
  return true;
}

}  // namespace causeway
