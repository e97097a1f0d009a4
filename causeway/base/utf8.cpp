#include "causeway/base/utf8.h"

namespace causeway {
namespace {

constexpr uint32_t kCodePoints = 0x110000;

bool is_continuation(std::string_view text, size_t position) {
  return position < text.size() && (static_cast<unsigned char>(text[position]) & 0xC0) == 0x80;
}

uint32_t payload(std::string_view text, size_t position) { return static_cast<unsigned char>(text[position]) & 0x3F; }

}  // namespace

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
