#include "causeway/data/skipped_lines.h"

namespace causeway::data {

namespace {

// A parser quotes what it has read of the line.
std::string shortened(const std::string& message) {
  constexpr size_t kMost = 200;
  if (message.size() <= kMost) return message;
  size_t end = kMost;
  while (end > 0 && (message[end] & '\xC0') == '\x80') --end;
  return message.substr(0, end) + "...";
}

}  // namespace

void SkippedLines::add(const Error& error) {
  if (!first_) first_ = error;
  ++count_;
  ++in_file_;
  if (named_.size() < kNamed) named_.push_back(fmt::format("{}: {}", error.where(), shortened(error.message())));
  if (!has_document_ && in_file_ >= kMostBeforeADocument) refuse();
}

void SkippedLines::end_file() {
  if (!has_document_ && first_) refuse();
  has_document_ = false;
  in_file_ = 0;
  first_.reset();
}

void SkippedLines::refuse() const {
  throw Error(first_->kind(),
              in_file_ == 1 ? first_->message()
                            : fmt::format("{}; none of the first {} here is a document", first_->message(), in_file_),
              first_->where(), first_->hint());
}

}  // namespace causeway::data
