#include "causeway/formats/chat_template/jinja_lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/base/printable.h"
#include "causeway/base/utf8.h"
#include "causeway/formats/chat_template/python_text.h"

namespace causeway::formats {
namespace {

constexpr std::string_view kSymbols[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
                                         "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_part(char c) { return is_name_start(c) || is_digit(c); }

// Every end of line becomes "\n", and the last one goes.
std::string normalized_lines(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r') {
      result += text[i];
      continue;
    }
    result += '\n';
    if (i + 1 < text.size() && text[i + 1] == '\n') ++i;
  }
  if (result.ends_with('\n')) result.pop_back();
  return result;
}

class TemplateLexer {
 public:
  TemplateLexer(std::string_view text, const std::string& where) : text_(normalized_lines(text)), where_(where) {}

  std::vector<JinjaToken> run() {
    while (at_ < text_.size()) read_data();
    add(JinjaTokenKind::kEnd);
    return std::move(tokens_);
  }

 private:
  enum class Sign { kNone, kStrip, kKeep };

  bool looks_at(std::string_view symbol) const { return std::string_view(text_).substr(at_).starts_with(symbol); }
  bool take(std::string_view symbol) {
    if (!looks_at(symbol)) return false;
    at_ += symbol.size();
    return true;
  }
  void skip_spaces() { at_ = skip_python_spaces(text_, at_); }

  // Of the place that is read, which moves forward only.
  int line() {
    line_ += static_cast<int>(std::count(text_.begin() + counted_, text_.begin() + at_, '\n'));
    counted_ = static_cast<ptrdiff_t>(at_);
    return line_;
  }
  [[noreturn]] void fail(std::string message) { throw_syntax_error(std::move(message), where_, line()); }

  void add(JinjaTokenKind kind, std::string text = {}) {
    tokens_.push_back({.kind = kind, .text = std::move(text), .line = line()});
  }

  Sign take_sign() { return take("-") ? Sign::kStrip : take("+") ? Sign::kKeep : Sign::kNone; }

  // The text before a tag, without what the tag strips of it.
  void add_data(size_t begin, size_t end, Sign sign, bool is_variable) {
    std::string_view data = std::string_view(text_).substr(begin, end - begin);
    if (sign == Sign::kStrip) {
      data = python_stripped(data, {}, false, true);
    } else if (sign == Sign::kNone && !is_variable) {
      const size_t newline = data.rfind('\n');
      const size_t line_begin = newline == std::string_view::npos ? 0 : newline + 1;
      const std::string_view rest = data.substr(line_begin);
      if ((line_begin > 0 || line_starting_) && skip_python_spaces(rest, 0) == rest.size())
        data = data.substr(0, line_begin);
    }
    if (data.empty()) return;
    const size_t after = std::exchange(at_, begin);
    add(JinjaTokenKind::kData, std::string(data));
    at_ = after;
  }

  // Text up to the next tag, and the tag.
  void read_data() {
    const size_t begin = at_;
    size_t tag = begin;
    while (true) {
      tag = text_.find('{', tag);
      if (tag == std::string::npos || tag + 1 >= text_.size()) {
        add(JinjaTokenKind::kData, text_.substr(begin));
        at_ = text_.size();
        return;
      }
      const char next = text_[tag + 1];
      if (next == '%' || next == '{' || next == '#') break;
      ++tag;
    }
    at_ = tag + 2;
    const char kind = text_[tag + 1];
    const Sign sign = take_sign();
    add_data(begin, tag, sign, kind == '{');
    line_starting_ = false;
    if (kind == '#') return read_comment();
    if (kind == '%' && take_raw_begin()) return read_raw();
    const bool is_variable = kind == '{';
    const size_t inside = std::exchange(at_, tag);
    add(is_variable ? JinjaTokenKind::kVariableBegin : JinjaTokenKind::kBlockBegin);
    at_ = inside;
    read_tag(is_variable);
  }

  void read_comment() {
    while (at_ < text_.size()) {
      if (looks_at("+#}") || looks_at("-#}") || looks_at("#}")) return end_tag("#}");
      ++at_;
    }
    fail("a comment has no end: #} is missing");
  }

  // A sign, the end of a comment or block and what is stripped behind it.
  void end_tag(std::string_view end) {
    const Sign sign = take_sign();
    take(end);
    line_starting_ = false;
    if (sign == Sign::kStrip) {
      const size_t begin = at_;
      skip_spaces();
      line_starting_ = at_ > begin && text_[at_ - 1] == '\n';
    } else if (sign == Sign::kNone && end != "}}") {
      line_starting_ = take("\n");
    }
  }

  bool take_raw_begin() {
    const size_t begin = at_;
    skip_spaces();
    if (take("raw")) {
      skip_spaces();
      if (take("%}")) {
        line_starting_ = false;
        return true;
      }
      if (looks_at("-%}")) {
        end_tag("%}");
        return true;
      }
    }
    at_ = begin;
    return false;
  }

  void read_raw() {
    const size_t begin = at_;
    for (size_t tag = text_.find("{%", at_); tag != std::string::npos; tag = text_.find("{%", tag + 1)) {
      at_ = tag + 2;
      const Sign sign = take_sign();
      skip_spaces();
      if (!take("endraw")) continue;
      skip_spaces();
      if (!looks_at("+%}") && !looks_at("-%}") && !looks_at("%}")) continue;
      add_data(begin, tag, sign, false);
      return end_tag("%}");
    }
    at_ = begin;
    fail("a raw block has no end: {% endraw %} is missing");
  }

  void read_tag(bool is_variable) {
    const std::string_view end = is_variable ? "}}" : "%}";
    std::string open;  // brackets that wait for their end
    while (true) {
      if (open.empty() &&
          (looks_at(end) || (at_ + 1 < text_.size() && (text_[at_] == '-' || (text_[at_] == '+' && !is_variable)) &&
                             std::string_view(text_).substr(at_ + 1).starts_with(end)))) {
        add(is_variable ? JinjaTokenKind::kVariableEnd : JinjaTokenKind::kBlockEnd);
        return end_tag(end);
      }
      const size_t begin = at_;
      skip_spaces();
      if (at_ > begin) continue;
      if (at_ >= text_.size()) fail(fmt::format("a tag has no end: {} is missing", end));
      read_token(open);
    }
  }

  void read_token(std::string& open) {
    const char c = text_[at_];
    if (is_digit(c)) return read_number();
    if (is_name_start(c)) {
      const size_t begin = at_;
      size_t last = at_;
      while (last < text_.size() && is_name_part(text_[last])) ++last;
      add(JinjaTokenKind::kName, text_.substr(begin, last - begin));
      at_ = last;
      return;
    }
    if (c == '\'' || c == '"') return read_string();
    for (const std::string_view symbol : kSymbols) {
      if (!looks_at(symbol)) continue;
      add(JinjaTokenKind::kOperator, std::string(symbol));
      match_bracket(symbol, open);
      at_ += symbol.size();
      return;
    }
    const Utf8Character character = decode_utf8(text_, at_);
    fail(fmt::format("unexpected character '{}'", printable(std::string_view(text_).substr(at_, character.size))));
  }

  void match_bracket(std::string_view symbol, std::string& open) {
    constexpr std::string_view kOpening = "{([", kClosing = "})]";
    if (const size_t kind = kOpening.find(symbol); kind != std::string_view::npos) open += kClosing[kind];
    if (kClosing.find(symbol) == std::string_view::npos) return;
    if (open.empty()) fail(fmt::format("unexpected '{}'", symbol));
    if (open.back() != symbol[0]) fail(fmt::format("unexpected '{}', expected '{}'", symbol, open.back()));
    open.pop_back();
  }

  // Digits that underscores may separate.
  size_t digits_end(size_t from, std::string_view digits) const {
    size_t end = from;
    for (size_t i = from; i < text_.size(); ++i) {
      if (digits.find(text_[i]) != std::string_view::npos)
        end = i + 1;
      else if (text_[i] != '_' || i != end || i == from)
        break;
    }
    return end;
  }

  void read_number() {
    constexpr std::string_view kDecimal = "0123456789";
    constexpr std::pair<char, std::string_view> kBases[] = {
        {'x', "0123456789abcdefABCDEF"}, {'o', "01234567"}, {'b', "01"}};
    const size_t begin = at_;
    size_t end = digits_end(begin, kDecimal);
    bool is_float = false;
    if (end < text_.size() && text_[end] == '.' && digits_end(end + 1, kDecimal) > end + 1) {
      end = digits_end(end + 1, kDecimal);
      is_float = true;
    }
    if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
      size_t exponent = end + 1;
      if (exponent < text_.size() && (text_[exponent] == '+' || text_[exponent] == '-')) ++exponent;
      if (const size_t exponent_end = digits_end(exponent, kDecimal); exponent_end > exponent) {
        end = exponent_end;
        is_float = true;
      }
    }
    if (is_float) return add_number(begin, end, 0);
    for (const auto& [letter, digits] : kBases) {
      if (text_[begin] != '0' || begin + 1 >= text_.size() || (text_[begin + 1] | 0x20) != letter) continue;
      const size_t digits_begin = begin + (begin + 2 < text_.size() && text_[begin + 2] == '_' ? 3 : 2);
      if (const size_t last = digits_end(digits_begin, digits); last > digits_begin)
        return add_number(begin, last, letter == 'x' ? 16 : letter == 'o' ? 8 : 2);
    }
    // A decimal number begins with no zero.
    if (text_[begin] == '0') end = digits_end(begin, "0");
    add_number(begin, end, 10);
  }

  // `base` 0: with a fraction or exponent.
  void add_number(size_t begin, size_t end, int base) {
    std::string digits;
    for (size_t i = begin + (base == 0 || base == 10 ? 0 : 2); i < end; ++i)
      if (text_[i] != '_') digits += text_[i];
    add(base == 0 ? JinjaTokenKind::kFloat : JinjaTokenKind::kInteger, text_.substr(begin, end - begin));
    JinjaToken& token = tokens_.back();
    const char *first = digits.data(), *last = first + digits.size();
    const std::from_chars_result result =
        base == 0 ? std::from_chars(first, last, token.floating) : std::from_chars(first, last, token.integer, base);
    if (result.ec != std::errc() || result.ptr != last) fail(fmt::format("the number {} is too large", token.text));
    at_ = end;
  }

  void read_string() {
    const char quote = text_[at_];
    size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) fail(fmt::format("unexpected character '{}': a string has no end", quote));
    add(JinjaTokenKind::kString, unescaped(at_ + 1, end));
    at_ = end + 1;
  }

  std::string unescaped(size_t begin, size_t end) {
    constexpr std::string_view kLetters = "abfnrtv\\'\"", kMeanings = "\a\b\f\n\r\t\v\\'\"";
    std::string result;
    for (size_t i = begin; i < end; ++i) {
      if (text_[i] != '\\') {
        result += text_[i];
        continue;
      }
      const char c = text_[++i];
      if (const size_t letter = kLetters.find(c); letter != std::string_view::npos) {
        result += kMeanings[letter];
      } else if (c == '\n') {
        continue;
      } else if (c >= '0' && c <= '7') {
        size_t last = i;
        while (last < end && last < i + 3 && text_[last] >= '0' && text_[last] <= '7') ++last;
        append_code(result, text_.substr(i, last - i), 8);
        i = last - 1;
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const size_t count = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        if (i + count >= end) fail("a string has an escape that ends too early");
        append_code(result, text_.substr(i + 1, count), 16);
        i += count;
      } else if (c == 'N') {
        throw_unsupported("the escape \\N", where_, line());
      } else if (static_cast<unsigned char>(c) >= 0x80) {
        // Python writes such a character as an escape before it reads escapes.
        const Utf8Character character = decode_utf8(text_, i);
        const uint32_t code = character.code_point;
        result += code < 0x100     ? fmt::format("\\x{:02x}", code)
                  : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                                   : fmt::format("\\U{:08x}", code);
        i += character.size - 1;
      } else {
        result += '\\';
        result += c;
      }
    }
    return result;
  }

  void append_code(std::string& result, const std::string& digits, int base) {
    uint32_t code = 0;
    const auto [last, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), code, base);
    if (failure != std::errc() || last != digits.data() + digits.size() || code > 0x10FFFF ||
        (code >= 0xD800 && code < 0xE000))
      fail(fmt::format("a string has the escape of no character: {}", printable(digits)));
    append_utf8(result, code);
  }

  const std::string text_;
  const std::string& where_;
  std::vector<JinjaToken> tokens_;
  size_t at_ = 0;
  ptrdiff_t counted_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // the place is the beginning of a line
};

}  // namespace

std::vector<JinjaToken> tokenize_template(std::string_view text, const std::string& where) {
  return TemplateLexer(text, where).run();
}

void throw_syntax_error(std::string message, const std::string& where, int line) {
  throw Error(ErrorKind::kInvalidArgument, "the chat template is not valid: " + std::move(message),
              fmt::format("{}:{}", where, line));
}

void throw_unsupported(std::string construct, const std::string& where, int line) {
  throw Error(ErrorKind::kUnsupported, fmt::format("the chat template uses {}, which is not supported", construct),
              fmt::format("{}:{}", where, line),
              "Write the template without it: docs/chat_templates.md lists what there is.");
}

}  // namespace causeway::formats
