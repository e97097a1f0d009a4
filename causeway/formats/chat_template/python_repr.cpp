#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <list>
#include <utility>

#include "causeway/base/utf8.h"
#include "causeway/formats/chat_template/python_format.h"
#include "causeway/formats/chat_template/python_text.h"

namespace causeway::formats {
namespace {

void append_string_repr(MarkedText& result, const MarkedText& text) {
  const std::string& bytes = text.bytes();
  const char quote = bytes.find('\'') != std::string::npos && bytes.find('"') == std::string::npos ? '"' : '\'';
  result.append(std::string_view(&quote, 1), text.mark_at(0));
  for (size_t at = 0; at < bytes.size();) {
    const Utf8Character character = decode_utf8(bytes, at);
    const uint32_t code = character.code_point;
    std::string escape;
    if (code == '\\' || code == static_cast<uint32_t>(quote))
      escape = fmt::format("\\{}", static_cast<char>(code));
    else if (code == '\n')
      escape = "\\n";
    else if (code == '\r')
      escape = "\\r";
    else if (code == '\t')
      escape = "\\t";
    else if (code != kInvalidCodePoint && !is_python_printable(code))
      escape = code < 0x100     ? fmt::format("\\x{:02x}", code)
               : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                                : fmt::format("\\U{:08x}", code);
    if (escape.empty())
      result.append(text, at, at + character.size);
    else
      result.append(escape, text.mark_at(at));
    at += character.size;
  }
  result.append(std::string_view(&quote, 1), text.mark_at(bytes.size()));
}

void append_repr(MarkedText& result, const JinjaValue& value);

void append_items(MarkedText& result, const JinjaValues& items, const TextMark& mark) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) result.append(", ", mark);
    append_repr(result, items[i]);
  }
}

void append_dict(MarkedText& result, const JinjaDict& dict, const TextMark& mark) {
  result.append("{", mark);
  bool is_first = true;
  for (const auto& [key, value] : dict.entries()) {
    if (!std::exchange(is_first, false)) result.append(", ", mark);
    append_repr(result, key);
    result.append(": ", mark);
    append_repr(result, value);
  }
  result.append("}", mark);
}

void append_view(MarkedText& result, const JinjaValue& view) {
  const TextMark& mark = view.mark();
  result.append(fmt::format("{}([", type_name(view)), mark);
  bool is_first = true;
  for (const auto& [key, value] : view.as<JinjaView>().dict.as<JinjaDict>().entries()) {
    if (!std::exchange(is_first, false)) result.append(", ", mark);
    if (view.is(JinjaKind::kItems)) result.append("(", mark);
    if (!view.is(JinjaKind::kValues)) append_repr(result, key);
    if (view.is(JinjaKind::kItems)) result.append(", ", mark);
    if (!view.is(JinjaKind::kKeys)) append_repr(result, value);
    if (view.is(JinjaKind::kItems)) result.append(")", mark);
  }
  result.append("])", mark);
}

void append_repr(MarkedText& result, const JinjaValue& value) {
  const TextMark& mark = value.mark();
  switch (value.kind()) {
    case JinjaKind::kUndefined:
      return result.append("Undefined", mark);
    case JinjaKind::kNone:
      return result.append("None", mark);
    case JinjaKind::kBoolean:
      return result.append(value.as_boolean() ? "True" : "False", mark);
    case JinjaKind::kInteger:
      return result.append(fmt::format("{}", value.as_integer()), mark);
    case JinjaKind::kFloat:
      return result.append(float_repr(value.as_float()), mark);
    case JinjaKind::kString:
      if (value.is_markup()) result.append("Markup(", mark);
      append_string_repr(result, value.text());
      if (value.is_markup()) result.append(")", mark);
      return;
    case JinjaKind::kList:
      result.append("[", mark);
      append_items(result, value.items(), mark);
      return result.append("]", mark);
    case JinjaKind::kTuple:
      result.append("(", mark);
      append_items(result, value.items(), mark);
      return result.append(value.items().size() == 1 ? ",)" : ")", mark);
    case JinjaKind::kDict:
      return append_dict(result, value.as<JinjaDict>(), mark);
    case JinjaKind::kKeys:
    case JinjaKind::kValues:
    case JinjaKind::kItems:
      return append_view(result, value);
    case JinjaKind::kRange: {
      const JinjaRange& range = value.as<JinjaRange>();
      return result.append(range.step == 1 ? fmt::format("range({}, {})", range.start, range.stop)
                                           : fmt::format("range({}, {}, {})", range.start, range.stop, range.step),
                           mark);
    }
    default:
      throw_template_error(fmt::format("'{}' has no text of its own", object_name(value)));
  }
}

void append_json_string(MarkedText& result, const MarkedText& text, const TextMark& mark, bool ensure_ascii) {
  const std::string& bytes = text.bytes();
  result.append("\"", mark);
  for (size_t at = 0; at < bytes.size();) {
    size_t end = at;
    const auto is_plain = [&](unsigned char c) {
      return c >= 0x20 && c != '"' && c != '\\' && (c < 0x80 || !ensure_ascii);
    };
    while (end < bytes.size() && is_plain(static_cast<unsigned char>(bytes[end]))) ++end;
    result.append(text, at, end);
    at = end;
    if (at >= bytes.size()) break;
    constexpr std::string_view kEscaped = "\"\\\n\r\t\f\b", kLetters = "\"\\nrtfb";
    const Utf8Character character = decode_utf8(bytes, at);
    const uint32_t code = character.code_point;
    const size_t letter = kEscaped.find(bytes[at]);
    std::string escape;
    if (letter != std::string_view::npos)
      escape = fmt::format("\\{}", kLetters[letter]);
    else if (code < 0x10000)
      escape = fmt::format("\\u{:04x}", code);
    else
      escape =
          fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((code - 0x10000) >> 10), 0xDC00 + ((code - 0x10000) & 0x3FF));
    result.append(escape, text.mark_at(at));
    at += character.size;
  }
  result.append("\"", mark);
}

class JsonWriter {
 public:
  explicit JsonWriter(const JsonStyle& style) : style_(style) {}

  void write(const JinjaValue& value) {
    const TextMark& mark = value.mark();
    switch (value.kind()) {
      case JinjaKind::kNone:
        return text.append("null", mark);
      case JinjaKind::kBoolean:
        return text.append(value.as_boolean() ? "true" : "false", mark);
      case JinjaKind::kInteger:
      case JinjaKind::kFloat:
        return text.append(number(value), mark);
      case JinjaKind::kString:
        return append_json_string(text, value.text(), mark, style_.ensure_ascii);
      case JinjaKind::kList:
      case JinjaKind::kTuple:
        return write_list(value.items(), mark);
      case JinjaKind::kDict:
        return write_dict(value.as<JinjaDict>(), mark);
      default:
        throw_template_error(fmt::format("Object of type {} is not JSON serializable", type_name(value)));
    }
  }

  MarkedText text;

 private:
  static std::string number(const JinjaValue& value) {
    if (!value.is(JinjaKind::kFloat)) return fmt::format("{}", value.as_integer());
    const double given = value.as_float();
    if (std::isnan(given)) return "NaN";
    if (std::isinf(given)) return given < 0 ? "-Infinity" : "Infinity";
    return float_repr(given);
  }

  void new_line(const TextMark& mark) {
    if (!style_.has_indent) return;
    text.append("\n", mark);
    for (int i = 0; i < depth_; ++i) text.append(style_.indent, mark);
  }

  void write_list(const JinjaValues& items, const TextMark& mark) {
    if (items.empty()) return text.append("[]", mark);
    text.append("[", mark);
    ++depth_;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) text.append(style_.item_separator, mark);
      new_line(mark);
      write(items[i]);
    }
    --depth_;
    new_line(mark);
    text.append("]", mark);
  }

  void write_key(const JinjaValue& key) {
    const TextMark& mark = key.mark();
    switch (key.kind()) {
      case JinjaKind::kString:
        return append_json_string(text, key.text(), mark, style_.ensure_ascii);
      case JinjaKind::kInteger:
      case JinjaKind::kFloat:
        return text.append("\"" + number(key) + "\"", mark);
      case JinjaKind::kBoolean:
        return text.append(key.as_boolean() ? "\"true\"" : "\"false\"", mark);
      case JinjaKind::kNone:
        return text.append("\"null\"", mark);
      default:
        throw_template_error(fmt::format("keys must be str, int, float, bool or None, not {}", type_name(key)));
    }
  }

  void write_dict(const JinjaDict& dict, const TextMark& mark) {
    if (dict.entries().empty()) return text.append("{}", mark);
    // A list: its sort is stable and bears any comparison.
    std::list<const JinjaDict::Entry*> entries;
    for (const JinjaDict::Entry& entry : dict.entries()) entries.push_back(&entry);
    if (style_.sort_keys)
      entries.sort([](const auto* a, const auto* b) { return compare_values(a->first, b->first, "<") < 0; });
    text.append("{", mark);
    ++depth_;
    bool is_first = true;
    for (const JinjaDict::Entry* entry : entries) {
      if (!std::exchange(is_first, false)) text.append(style_.item_separator, mark);
      new_line(mark);
      write_key(entry->first);
      text.append(style_.key_separator, mark);
      write(entry->second);
    }
    --depth_;
    new_line(mark);
    text.append("}", mark);
  }

  const JsonStyle& style_;
  int depth_ = 0;
};

}  // namespace

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto written = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  const std::string_view text(buffer, static_cast<size_t>(written.ptr - buffer));
  const size_t e = text.find('e');
  int exponent = 0;
  const size_t digits_at = text[e + 1] == '+' ? e + 2 : e + 1;
  std::from_chars(text.data() + digits_at, text.data() + text.size(), exponent);
  const std::string_view sign = text.starts_with('-') ? "-" : "";
  std::string digits;
  for (const char c : text.substr(0, e))
    if (c >= '0' && c <= '9') digits += c;
  if (exponent < -4 || exponent >= 16) {
    const std::string fraction = digits.size() > 1 ? "." + digits.substr(1) : "";
    return fmt::format("{}{}{}e{}{:02}", sign, digits[0], fraction, exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return fmt::format("{}0.{}{}", sign, std::string(static_cast<size_t>(-exponent - 1), '0'), digits);
  const size_t whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return fmt::format("{}{}{}.0", sign, digits, std::string(whole - digits.size(), '0'));
  return fmt::format("{}{}.{}", sign, digits.substr(0, whole), digits.substr(whole));
}

MarkedText python_str(const JinjaValue& value) {
  if (value.is(JinjaKind::kString)) return value.text();
  if (value.is(JinjaKind::kUndefined)) return {};
  return python_repr(value);
}

MarkedText python_repr(const JinjaValue& value) {
  MarkedText result;
  append_repr(result, value);
  return result;
}

MarkedText python_json(const JinjaValue& value, const JsonStyle& style) {
  JsonWriter writer(style);
  writer.write(value);
  return std::move(writer.text);
}

}  // namespace causeway::formats
