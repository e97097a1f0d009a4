#include "causeway/formats/chat_template/marked_text.h"

#include <algorithm>
#include <utility>

#include "causeway/base/utf8.h"

namespace causeway::formats {

MarkedText::MarkedText(std::string bytes, const TextMark& mark) : bytes_(std::move(bytes)) {
  add_run(bytes_.size(), mark);
}

void MarkedText::add_run(size_t end, const TextMark& mark) {
  if (end == (runs_.empty() ? 0 : runs_.back().end)) return;
  if (!runs_.empty() && runs_.back().mark == mark)
    runs_.back().end = end;
  else
    runs_.push_back({end, mark});
}

TextMark MarkedText::mark_at(size_t position) const {
  if (runs_.empty()) return {};
  const auto run = std::ranges::upper_bound(runs_, position, {}, &Run::end);
  return run == runs_.end() ? runs_.back().mark : run->mark;
}

void MarkedText::append(std::string_view bytes, const TextMark& mark) {
  bytes_ += bytes;
  add_run(bytes_.size(), mark);
}

void MarkedText::append(const MarkedText& text, size_t begin, size_t end) {
  if (begin >= end) return;
  const size_t before = bytes_.size();
  bytes_.append(text.bytes_, begin, end - begin);
  for (auto run = std::ranges::upper_bound(text.runs_, begin, {}, &Run::end); run != text.runs_.end(); ++run) {
    add_run(before + std::min(run->end, end) - begin, run->mark);
    if (run->end >= end) break;
  }
}

MarkedText MarkedText::part(size_t begin, size_t end) const {
  MarkedText result;
  result.append(*this, begin, end);
  return result;
}

size_t character_count(std::string_view text) {
  size_t count = 0;
  for (size_t at = 0; at < text.size(); ++count)
    at += static_cast<unsigned char>(text[at]) < 0x80 ? 1 : decode_utf8(text, at).size;
  return count;
}

size_t character_offset(std::string_view text, size_t index) {
  size_t at = 0;
  for (; index > 0 && at < text.size(); --index)
    at += static_cast<unsigned char>(text[at]) < 0x80 ? 1 : decode_utf8(text, at).size;
  return at;
}

}  // namespace causeway::formats
