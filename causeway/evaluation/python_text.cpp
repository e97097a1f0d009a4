#include "causeway/evaluation/python_text.h"

#include <utf8proc.h>

#include <algorithm>

#include "causeway/base/utf8.h"

namespace causeway::evaluation {
namespace {

// What a letter is to a final sigma (The Unicode Standard, section 3.13).
enum class SigmaContext { kNone, kCased, kIgnored };

struct TitleCase {
  uint32_t code_point;
  const char* title;
};
struct SigmaContextRange {
  uint32_t first;
  uint32_t last;
  SigmaContext context;
};

#include "causeway/evaluation/python_case.inc"

constexpr uint32_t kSigma = 0x3A3, kSmallSigma = 0x3C3, kFinalSigma = 0x3C2, kDottedI = 0x130;

// str.isspace(): Unicode's White_Space, and the four separators of ASCII.
bool is_space(uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

size_t begin_of_last(std::string_view text) {
  size_t begin = text.size() - 1;
  while (begin > 0 && continues_character(text[begin])) --begin;
  return begin;
}

SigmaContext sigma_context(uint32_t code_point) {
  const SigmaContextRange* found = std::ranges::lower_bound(kSigmaContexts, code_point, {}, &SigmaContextRange::last);
  if (found != std::end(kSigmaContexts) && found->first <= code_point) return found->context;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code_point))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
      return SigmaContext::kCased;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return SigmaContext::kIgnored;
    default:
      return SigmaContext::kNone;
  }
}

// The first that is not ignored.
SigmaContext context_after(std::string_view text, size_t position) {
  while (position < text.size()) {
    const Utf8Character character = decode_utf8(text, position);
    const SigmaContext context = sigma_context(character.code_point);
    if (context != SigmaContext::kIgnored) return context;
    position += character.size;
  }
  return SigmaContext::kNone;
}

void append_title_case(std::string& result, uint32_t code_point) {
  const TitleCase* found = std::ranges::lower_bound(kTitleCases, code_point, {}, &TitleCase::code_point);
  if (found != std::end(kTitleCases) && found->code_point == code_point)
    result += found->title;
  else
    append_utf8(result, static_cast<uint32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(code_point))));
}

// Of text[begin:] in bytes; what stands before counts for its sigmas.
void append_lower_case(std::string& result, std::string_view text, size_t begin) {
  SigmaContext before = SigmaContext::kNone;  // of the last letter that is not ignored
  for (size_t position = 0; position < text.size();) {
    const Utf8Character character = decode_utf8(text, position);
    const uint32_t c = character.code_point;
    position += character.size;
    const SigmaContext context =
        c < 0x80 && (c | 0x20) >= 'a' && (c | 0x20) <= 'z' ? SigmaContext::kCased : sigma_context(c);
    if (position > begin) {
      if (c == kDottedI) {
        result += "i\xCC\x87";
      } else if (c == kSigma) {
        // A sigma is cased itself: what is ignored behind it is looked at once.
        const bool is_final = before == SigmaContext::kCased && context_after(text, position) != SigmaContext::kCased;
        append_utf8(result, is_final ? kFinalSigma : kSmallSigma);
      } else {
        append_utf8(result, static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
      }
    }
    if (context != SigmaContext::kIgnored) before = context;
  }
}

}  // namespace

size_t trailing_space(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    const size_t begin = begin_of_last(text.substr(0, end));
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

std::string_view without_last(std::string_view text) {
  return text.empty() ? text : text.substr(0, begin_of_last(text));
}

std::string_view first_word(std::string_view text) {
  text = strip(text);
  for (size_t position = 0; position < text.size();) {
    const Utf8Character character = decode_utf8(text, position);
    if (is_space(character.code_point)) return text.substr(0, position);
    position += character.size;
  }
  return text;
}

std::string lower(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  append_lower_case(result, text, 0);
  return result;
}

std::string capitalize(std::string_view text) {
  std::string result;
  if (text.empty()) return result;
  const Utf8Character first = decode_utf8(text, 0);
  append_title_case(result, first.code_point);
  append_lower_case(result, text, first.size);
  return result;
}

std::string with_lower_first(std::string_view text) {
  if (text.empty()) return "";
  const size_t first = decode_utf8(text, 0).size;
  return lower(text.substr(0, first)).append(text.substr(first));
}

std::string replace(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  for (size_t found; (found = text.find(from)) != std::string_view::npos; text.remove_prefix(found + from.size()))
    result.append(text.substr(0, found)).append(to);
  return result.append(text);
}

std::string without_brackets(std::string_view text) {
  std::string result;
  size_t end = 0;  // the next bracket that closes, or the end of the line, or of the text
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '[') {
      if (end <= at) end = std::min(text.find_first_of("]\n", at), text.size());
      if (end < text.size() && text[end] == ']') {
        at = end + 1;
        continue;
      }
    }
    result += text[at++];
  }
  return result;
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
