#include "causeway/evaluation/python_text.h"

#include <utf8proc.h>

#include <algorithm>

#include "causeway/base/utf8.h"
#include "causeway/formats/tokenizer/unicode_text.h"

namespace causeway::evaluation {
namespace {

// str.isspace(): Unicode's White_Space, and the four separators of ASCII.
bool is_space(uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

}  // namespace

size_t trailing_space(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t begin = end - 1;
    while (begin > 0 && continues_character(text[begin])) --begin;
    if (!is_space(decode_utf8(text, begin).code_point)) break;
    end = begin;
  }
  return text.size() - end;
}

std::string_view strip(std::string_view text) {
  text.remove_suffix(trailing_space(text));
  while (!text.empty()) {
    const Utf8Character first = decode_utf8(text, 0);
    if (!is_space(first.code_point)) break;
    text.remove_prefix(first.size);
  }
  return text;
}

std::string capitalize(std::string_view text) {
  if (text.empty()) return "";
  const Utf8Character first = decode_utf8(text, 0);
  std::string result;
  append_utf8(result, static_cast<uint32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(first.code_point))));
  return result + lower_case(text.substr(first.size));
}

std::string with_lower_first(std::string_view text) {
  if (text.empty()) return "";
  const size_t first = decode_utf8(text, 0).size;
  return lower_case(text.substr(0, first)).append(text.substr(first));
}

std::string replace(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  for (size_t found; (found = text.find(from)) != std::string_view::npos; text.remove_prefix(found + from.size()))
    result.append(text.substr(0, found)).append(to);
  return result.append(text);
}

size_t character_count(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char byte) { return !continues_character(byte); }));
}

size_t byte_of_character(std::string_view text, size_t index) {
  for (size_t byte = 0; byte < text.size(); ++byte)
    if (!continues_character(text[byte]) && index-- == 0) return byte;
  return text.size();
}

}  // namespace causeway::evaluation
