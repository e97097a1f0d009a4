#include "causeway/generate/generated_text.h"

#include <algorithm>

namespace causeway::generate {
namespace {

constexpr size_t kBefore = 16;

// Bytes at the end of `text` that are the beginning of `stop`, but not all of it.
size_t begun(std::string_view text, std::string_view stop) {
  size_t length = std::min(text.size(), stop.size() - 1);
  while (length > 0 && !stop.starts_with(text.substr(text.size() - length))) --length;
  return length;
}

}  // namespace

GeneratedText::GeneratedText(const Tokenizer& tokenizer, const std::vector<int32_t>& prompt,
                             std::vector<std::string> stops)
    : tokenizer_(tokenizer),
      stops_(std::move(stops)),
      recent_(prompt.end() - static_cast<ptrdiff_t>(std::min(prompt.size(), kBefore)), prompt.end()) {
  std::erase(stops_, std::string());
}

std::string GeneratedText::add(int32_t token) {
  if (has_stopped_) return {};
  const std::string known = tokenizer_.decode(recent_);
  recent_.push_back(token);
  const std::string longer = tokenizer_.decode(recent_);
  if (recent_.size() > kBefore) recent_.erase(recent_.begin());
  if (longer.size() > known.size()) waiting_ += longer.substr(known.size());
  size_t end = std::string::npos, held = 0;
  for (const std::string& stop : stops_) {
    end = std::min(end, waiting_.find(stop));
    held = std::max(held, begun(waiting_, stop));
  }
  if (end == std::string::npos) return show(waiting_.size() - held);
  has_stopped_ = true;
  std::string last = show(end);
  waiting_.clear();
  return last;
}

std::string GeneratedText::finish() { return show(waiting_.size()); }

std::string GeneratedText::show(size_t bytes) {
  std::string part = waiting_.substr(0, bytes);
  waiting_.erase(0, bytes);
  shown_ += part;
  return part;
}

}  // namespace causeway::generate
