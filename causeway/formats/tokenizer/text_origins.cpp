#include "causeway/formats/tokenizer/text_origins.h"

#include "causeway/base/utf8.h"
#include "causeway/formats/tokenizer/unicode_text.h"

namespace causeway::formats {
namespace {

// Vowels and final consonants, which join the syllable before them.
bool is_joining_jamo(uint32_t code_point) { return code_point >= 0x1160 && code_point <= 0x11FF; }

}  // namespace

TextOrigins own_origins(size_t size, size_t begin) {
  TextOrigins origins(size);
  for (size_t i = 0; i < size; ++i) origins[i] = {begin + i, begin + i + 1};
  return origins;
}

TextSpan joined_origin(std::span<const TextSpan> origins, size_t at) {
  TextSpan joined{at, at};
  bool is_first = true;
  for (const TextSpan& origin : origins) {
    if (origin.begin == origin.end) continue;
    joined.begin = is_first ? origin.begin : std::min(joined.begin, origin.begin);
    joined.end = is_first ? origin.end : std::max(joined.end, origin.end);
    is_first = false;
  }
  return joined;
}

TextOrigins origins_of_parts(std::string_view text, const TextOrigins& origins, std::string_view made,
                             const std::function<std::string(std::string)>& change) {
  if (text == made) return origins;
  TextOrigins result;
  std::string together;
  const std::span<const TextSpan> of_text(origins);
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin + decode_utf8(text, begin).size;
    for (; end < text.size(); end += decode_utf8(text, end).size) {
      const uint32_t next = decode_utf8(text, end).code_point;
      if (!is_accent(next) && !is_joining_jamo(next)) break;
    }
    const std::string_view part = text.substr(begin, end - begin);
    const std::string changed = change(std::string(part));
    const std::span<const TextSpan> of_part = of_text.subspan(begin, part.size());
    if (changed == part) {
      result.insert(result.end(), of_part.begin(), of_part.end());
    } else {
      result.insert(result.end(), changed.size(), joined_origin(of_part, of_part.front().begin));
    }
    together += changed;
    begin = end;
  }
  if (together == made) return result;
  return TextOrigins(made.size(), joined_origin(of_text, of_text.empty() ? 0 : of_text.front().begin));
}

}  // namespace causeway::formats
