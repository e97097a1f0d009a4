#include "causeway/formats/csv_record.h"

#include <algorithm>

#include "causeway/base/error.h"

namespace causeway::formats {
namespace {

constexpr char kQuote = '"';

class RecordParser {
 public:
  RecordParser(std::string_view text, bool is_all, const std::string& input, uint64_t line)
      : text_(text), is_all_(is_all), input_(input), line_(line) {}

  std::optional<CsvRecord> parse() {
    while (true) {
      const bool whole = at_ < text_.size() && text_[at_] == kQuote ? take_quoted() : take_plain();
      if (!whole) return std::nullopt;
      if (at_ == text_.size()) break;
      if (text_[at_] == ',') {
        ++at_;
        if (at_ == text_.size() && !is_all_) return std::nullopt;
        continue;
      }
      if (text_[at_] == '\n') {
        ++at_;
        break;
      }
      CAUSEWAY_CHECK(text_[at_] == '\r');
      if (at_ + 1 == text_.size() && !is_all_) return std::nullopt;
      if (text_.substr(at_ + 1, 1) != "\n")
        fail(at_, "a carriage return ends no line here",
             "Lines end with LF or CRLF; put a field with line breaks in double quotes.");
      at_ += 2;
      break;
    }
    record_.size = at_;
    return std::move(record_);
  }

 private:
  // Both leave off behind the field; false where that is not there yet.
  bool take_plain() {
    const size_t end = std::min(text_.find_first_of(",\r\n\"", at_), text_.size());
    if (end == text_.size() && !is_all_) return false;
    if (end < text_.size() && text_[end] == kQuote)
      fail(end, "there is a double quote in a field that does not begin with one",
           "Put the whole field in double quotes, and write each quote within it twice.");
    record_.fields.push_back({text_.substr(at_, end - at_), false});
    at_ = end;
    return true;
  }

  bool take_quoted() {
    const size_t begin = at_ + 1;
    size_t end = text_.find(kQuote, begin);
    while (end != std::string_view::npos && text_.substr(end + 1, 1) == "\"") end = text_.find(kQuote, end + 2);
    // What follows the last quote of the text says whether the field ends there.
    if (!is_all_ && (end == std::string_view::npos || end + 1 == text_.size())) return false;
    if (end == std::string_view::npos)
      fail(at_, "the quoted field that begins here does not end", "Write a quote within such a field twice.");
    if (end + 1 < text_.size() && text_.find_first_of(",\r\n", end + 1) != end + 1)
      fail(end, "a quoted field goes on after the quote that ends it", "Write a quote within such a field twice.");
    record_.fields.push_back({text_.substr(begin, end - begin), true});
    at_ = end + 1;
    return true;
  }

  [[noreturn]] void fail(size_t position, const std::string& what, const std::string& hint) const {
    const std::string_view before = text_.substr(0, position);
    const size_t line_start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
    const auto line = line_ + static_cast<uint64_t>(std::count(before.begin(), before.end(), '\n'));
    throw Error(ErrorKind::kCorrupt, what,
                fmt::format("{}, line {}, column {}", input_, line, position - line_start + 1), hint);
  }

  std::string_view text_;
  bool is_all_;
  const std::string& input_;
  uint64_t line_;
  size_t at_ = 0;
  CsvRecord record_;
};

}  // namespace

void append_csv_value(const CsvField& field, std::string& value) {
  if (!field.is_quoted) {
    value += field.bytes;
    return;
  }
  for (std::string_view rest = field.bytes; !rest.empty();) {
    const size_t end = std::min(rest.find(kQuote), rest.size() - 1) + 1;
    value += rest.substr(0, end);
    rest.remove_prefix(std::min(end + (rest[end - 1] == kQuote ? 1 : 0), rest.size()));
  }
}

std::optional<CsvRecord> parse_csv_record(std::string_view text, bool is_all, const std::string& input, uint64_t line) {
  CAUSEWAY_CHECK(!text.empty());
  return RecordParser(text, is_all, input, line).parse();
}

}  // namespace causeway::formats
