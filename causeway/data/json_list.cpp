#include "causeway/data/json_list.h"

#include <algorithm>
#include <utility>

#include "causeway/base/error.h"

namespace causeway::data {
namespace {

constexpr std::string_view kJsonSpace = " \t\r\n";

}  // namespace

void JsonListCutter::refuse(const std::string& what) const {
  throw Error(
      ErrorKind::kCorrupt, what, fmt::format("{}, line {}, column {}", name_, line_, column_),
      "The file must be one list of objects: [{...}, {...}]. Of an object a line (JSON Lines), name it .jsonl or "
      "say --format jsonl.");
}

void JsonListCutter::take(std::string_view text) {
  const size_t last = text.rfind('\n');
  line_ += static_cast<uint64_t>(std::ranges::count(text, '\n'));
  column_ = last == std::string_view::npos ? column_ + text.size() : text.size() - last;
}

// Behind it: where brackets and quotes that it opens are closed, or of another value where something else begins.
size_t JsonListCutter::end_of_element(std::string& buffer, const std::function<bool()>& more, size_t begin) const {
  int64_t depth = 0;
  bool in_string = false, is_escaped = false;
  for (size_t i = begin;; ++i) {
    while (i == buffer.size()) {
      if (buffer.size() - begin > most_bytes_)
        throw Error(ErrorKind::kUnsupported,
                    fmt::format("the sample is longer than {} bytes, the most that is read", most_bytes_),
                    fmt::format("{}, sample {}, line {}", name_, number_ + 1, line_), "Split it.");
      if (more()) continue;
      if (depth == 0 && !in_string) return i;
      refuse(fmt::format("the text ends within sample {}", number_ + 1));
    }
    const char c = buffer[i];
    if (in_string) {
      in_string = is_escaped || c != '"';
      is_escaped = !is_escaped && c == '\\';
      if (!in_string && depth == 0) return i + 1;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (depth > 0) {
      if ((c == ']' || c == '}') && --depth == 0) return i + 1;
    } else if (c == ',' || c == ']' || c == '}' || kJsonSpace.find(c) != std::string_view::npos) {
      return i;
    }
  }
}

void JsonListCutter::cut(std::string& buffer, const std::function<bool()>& more, size_t bytes, std::string& text,
                         std::vector<ListedSample>& samples) {
  size_t begin = 0;
  const auto take_to = [&](size_t end) {
    take(std::string_view(buffer).substr(begin, end - begin));
    begin = end;
  };
  while (samples.empty() || begin < bytes) {
    size_t at = buffer.find_first_not_of(kJsonSpace, begin);
    if (at == std::string::npos) {
      take_to(buffer.size());
      if (more()) continue;
      if (expects_ != Expects::kNothing)
        refuse(expects_ == Expects::kList ? "the text is no list" : "the list is not closed");
      break;
    }
    take_to(at);
    const char c = buffer[at];
    switch (expects_) {
      case Expects::kList:
        if (c != '[') refuse("the text is no list");
        expects_ = Expects::kFirst;
        take_to(at + 1);
        continue;
      case Expects::kNothing:
        refuse("something stands behind the list");
      case Expects::kComma:
        if (c != ',' && c != ']')
          refuse(fmt::format("sample {} is followed by neither a comma nor a bracket", number_));
        expects_ = c == ',' ? Expects::kElement : Expects::kNothing;
        take_to(at + 1);
        continue;
      case Expects::kFirst:
      case Expects::kElement:
        break;
    }
    if (c == ']' && expects_ == Expects::kFirst) {
      expects_ = Expects::kNothing;
      take_to(at + 1);
      continue;
    }
    if (c == ',' || c == ']') refuse("a sample is missing");
    const size_t end = end_of_element(buffer, more, at);
    if (end == at) refuse("a sample is missing");
    ListedSample& sample = samples.emplace_back();
    sample = {text.size(), text.size() + end - at, ++number_, line_, column_};
    text.append(buffer, at, end - at);
    expects_ = Expects::kComma;
    take_to(end);
  }
  buffer.erase(0, begin);
}

}  // namespace causeway::data
