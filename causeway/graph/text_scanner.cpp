#include "causeway/graph/text_scanner.h"

#include <charconv>
#include <optional>

namespace causeway::graph {
namespace {

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

}  // namespace

void TextScanner::fail_at(size_t position, const std::string& what, const std::string& hint) const {
  size_t line = 1, column = 1;
  for (size_t i = 0; i < position; ++i) {
    ++column;
    if (text_[i] == '\n') {
      ++line;
      column = 1;
    }
  }
  throw Error(ErrorKind::kInvalidArgument, what, fmt::format("graph text, line {}, column {}", line, column), hint);
}

bool TextScanner::peek_is_name() const { return !at_end() && is_name_character(peek()); }

void TextScanner::skip_spaces() {
  while (peek_is(' ') || peek_is('\t')) ++position_;
}

void TextScanner::skip_space_and_lines() {
  while (peek_is(' ') || peek_is('\t') || peek_is('\r') || peek_is('\n')) ++position_;
}

void TextScanner::skip_blank_lines() {
  while (true) {
    skip_space_and_lines();
    if (!peek_is('#')) return;
    while (!at_end() && !peek_is('\n')) ++position_;
  }
}

bool TextScanner::accept(char c) {
  skip_spaces();
  return accept_here(c);
}

bool TextScanner::accept_here(char c) {
  if (!peek_is(c)) return false;
  ++position_;
  return true;
}

void TextScanner::expect(char c, const char* where) {
  if (!accept(c)) fail(fmt::format("expected '{}' {}", c, where));
}

std::string TextScanner::name(const char* what) {
  skip_spaces();
  const size_t begin = position_;
  while (peek_is_name()) ++position_;
  if (position_ == begin) fail(fmt::format("expected {}", what));
  return std::string(text_.substr(begin, position_ - begin));
}

int64_t TextScanner::integer(const char* what) {
  skip_spaces();
  int64_t value = 0;
  const auto [end, status] = std::from_chars(text_.data() + position_, text_.data() + text_.size(), value);
  if (status == std::errc::result_out_of_range) fail(fmt::format("{} is too large", what));
  if (status != std::errc()) fail(fmt::format("expected {}", what));
  position_ = static_cast<size_t>(end - text_.data());
  return value;
}

double TextScanner::number(const char* what) {
  skip_spaces();
  double value = 0;
  const auto [end, status] = std::from_chars(text_.data() + position_, text_.data() + text_.size(), value);
  if (status == std::errc::result_out_of_range) fail(fmt::format("{} is out of range", what));
  if (status != std::errc()) fail(fmt::format("expected {}", what));
  position_ = static_cast<size_t>(end - text_.data());
  return value;
}

int TextScanner::hex_digit() {
  const char c = peek();
  if (c >= '0' && c <= '9') return ++position_, c - '0';
  if (c >= 'a' && c <= 'f') return ++position_, c - 'a' + 10;
  fail("expected a lower-case hexadecimal digit");
}

char TextScanner::escaped_character() {
  if (!peek_is('\\')) return text_[position_++];
  ++position_;
  const char c = peek();
  if (c == 'x') {
    ++position_;
    const int high = hex_digit();
    return static_cast<char>(high * 16 + hex_digit());
  }
  if (c != 'n' && c != '\\' && c != '"') fail("expected n, x, \\ or \" after a backslash");
  ++position_;
  return c == 'n' ? '\n' : c;
}

std::string TextScanner::quoted(const char* what) {
  skip_spaces();
  if (!peek_is('"')) fail(fmt::format("expected {} in double quotes", what));
  const size_t begin = position_++;
  std::string result;
  while (!peek_is('"')) {
    if (at_end() || peek_is('\n')) fail_at(begin, fmt::format("{} has no closing quote", what));
    result += escaped_character();
  }
  ++position_;
  return result;
}

Shape TextScanner::shape() {
  expect('[', "before a list of sizes");
  Shape result;
  if (accept(']')) return result;
  while (true) {
    skip_spaces();
    const size_t begin = position_;
    while (!at_end() && !peek_is(',') && !peek_is(']') && !peek_is('\n')) ++position_;
    if (at_end() || peek_is('\n')) fail("expected ']' after a list of sizes");
    const std::string text(text_.substr(begin, position_ - begin));
    result.push_back(at(begin, [&] { return Dim::parse(text); }));
    if (text_[position_++] == ']') return result;
  }
}

std::vector<int64_t> TextScanner::integers() {
  expect('[', "before a list of integers");
  std::vector<int64_t> result;
  if (accept(']')) return result;
  do {
    result.push_back(integer("an integer"));
  } while (accept(','));
  expect(']', "after a list of integers");
  return result;
}

DType TextScanner::dtype() {
  skip_spaces();
  const size_t begin = position_;
  const std::string text = name("an element type");
  if (const std::optional<DType> dtype = parse_dtype(text)) return *dtype;
  std::vector<std::string> names;
  for (const DType dtype : kAllDTypes) names.emplace_back(dtype_name(dtype));
  fail_at(begin, fmt::format("there is no element type '{}'", text), suggestion(text, names));
}

TensorType TextScanner::tensor_type() {
  TensorType type;
  type.dtype = dtype();
  type.shape = shape();
  return type;
}

std::string TextScanner::comment() {
  skip_spaces();
  if (!peek_is('#')) return {};
  ++position_;
  if (peek_is(' ')) ++position_;
  std::string result;
  while (!at_end() && !peek_is('\n') && !peek_is('\r')) result += escaped_character();
  return result;
}

void TextScanner::end_of_line(const char* what) {
  skip_spaces();
  if (peek_is('\r')) ++position_;
  if (!at_end() && !peek_is('\n')) fail(fmt::format("expected the end of the line after {}", what));
}

std::string TextScanner::suggestion(const std::string& name, const std::vector<std::string>& candidates) {
  const std::string nearest = nearest_name(name, candidates);
  return nearest.empty() ? fmt::format("known are {}", fmt::join(candidates, ", "))
                         : fmt::format("did you mean '{}'?", nearest);
}

}  // namespace causeway::graph
