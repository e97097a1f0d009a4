#include "causeway/formats/chat_template/python_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/base/printable.h"
#include "causeway/base/utf8.h"
#include "causeway/formats/chat_template/jinja_operators.h"

namespace causeway::formats {
namespace {

constexpr int64_t kMostWidth = 1'000'000;

// [[fill]align][sign][#][0][width][,][.precision][type]
struct FormatSpec {
  std::string fill = " ";
  char align = 0;  // 0: the type's own
  char sign = '-';
  bool is_alternate = false;
  char group = 0;
  int64_t width = 0, precision = -1;
  char type = 0;
};

[[noreturn]] void refuse_format(std::string_view what) {
  throw Error(ErrorKind::kUnsupported,
              fmt::format("the chat template formats by '{}', which is not supported", printable(what)));
}

int64_t take_number(std::string_view text, size_t& at, int64_t otherwise) {
  if (at >= text.size() || text[at] < '0' || text[at] > '9') return otherwise;
  int64_t number = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at)
    if ((number = number * 10 + (text[at] - '0')) > kMostWidth) throw_template_error("a format is too wide");
  return number;
}

FormatSpec parse_spec(std::string_view text) {
  FormatSpec spec;
  size_t at = 0;
  const auto is_align = [&](size_t i) {
    return i < text.size() && (std::string_view("<>=^").find(text[i]) != std::string_view::npos);
  };
  const size_t first = text.empty() ? 0 : decode_utf8(text, 0).size;
  if (first > 0 && is_align(first)) {
    spec.fill = text.substr(0, first);
    spec.align = text[first];
    at = first + 1;
  } else if (is_align(0)) {
    spec.align = text[at++];
  }
  if (at < text.size() && (std::string_view("+- ").find(text[at]) != std::string_view::npos)) spec.sign = text[at++];
  if (at < text.size() && text[at] == '#') spec.is_alternate = true, ++at;
  if (at < text.size() && text[at] == '0') {
    if (spec.align == 0) spec.fill = "0", spec.align = '=';
    ++at;
  }
  spec.width = take_number(text, at, 0);
  if (at < text.size() && (text[at] == ',' || text[at] == '_')) spec.group = text[at++];
  if (at < text.size() && text[at] == '.') {
    ++at;
    spec.precision = take_number(text, at, -1);
  }
  if (at < text.size()) spec.type = text[at++];
  if (at < text.size()) refuse_format(text);
  return spec;
}

void pad(MarkedText& result, const MarkedText& body, size_t sign_size, const FormatSpec& spec, char align,
         const TextMark& mark) {
  const size_t count = character_count(body.bytes());
  const auto width = static_cast<size_t>(spec.width);
  const size_t missing = width > count ? width - count : 0;
  const size_t before = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  const auto fill = [&](size_t times) {
    for (size_t i = 0; i < times; ++i) result.append(spec.fill, mark);
  };
  if (align == '=') {
    result.append(body, 0, sign_size);
    fill(missing);
    return result.append(body, sign_size, body.size());
  }
  fill(before);
  result.append(body);
  fill(missing - before);
}

std::string grouped(std::string digits, char group) {
  const size_t end = std::min(digits.find_first_not_of("0123456789"), digits.size());
  for (size_t at = end; at > 3; at -= 3) digits.insert(at - 3, 1, group);
  return digits;
}

// The digits of a number without its sign.
std::string number_digits(const JinjaValue& value, const FormatSpec& spec) {
  const bool is_whole = value.is_whole();
  const int precision = spec.precision < 0 ? 6 : static_cast<int>(std::min<int64_t>(spec.precision, 400));
  const double magnitude = std::abs(value.as_float());
  switch (spec.type) {
    case 'f':
    case 'F':
      return fmt::format("{:.{}f}", magnitude, precision);
    case 'e':
    case 'E':
      return spec.type == 'e' ? fmt::format("{:.{}e}", magnitude, precision)
                              : fmt::format("{:.{}E}", magnitude, precision);
    case 'g':
    case 'G':
      return spec.type == 'g' ? fmt::format("{:.{}g}", magnitude, std::max(precision, 1))
                              : fmt::format("{:.{}G}", magnitude, std::max(precision, 1));
    case '%':
      return fmt::format("{:.{}f}%", magnitude * 100, precision);
    default:
      break;
  }
  if (!is_whole) {
    if (spec.type != 0 || spec.precision >= 0) refuse_format(fmt::format("{}", spec.type == 0 ? '.' : spec.type));
    return float_repr(magnitude);
  }
  const int64_t given = value.as_integer();
  const uint64_t whole = given < 0 ? 0 - static_cast<uint64_t>(given) : static_cast<uint64_t>(given);
  switch (spec.type) {
    case 0:
    case 'd':
    case 'i':
    case 'u':
      return fmt::format("{}", whole);
    case 'x':
      return (spec.is_alternate ? "0x" : "") + fmt::format("{:x}", whole);
    case 'X':
      return (spec.is_alternate ? "0X" : "") + fmt::format("{:X}", whole);
    case 'o':
      return (spec.is_alternate ? "0o" : "") + fmt::format("{:o}", whole);
    case 'b':
      return (spec.is_alternate ? "0b" : "") + fmt::format("{:b}", whole);
    default:
      refuse_format(std::string_view(&spec.type, 1));
  }
}

void append_number(MarkedText& result, const JinjaValue& value, const FormatSpec& spec, const TextMark& mark) {
  std::string digits = number_digits(value, spec);
  if (spec.group != 0) digits = grouped(std::move(digits), spec.group);
  const bool is_negative = value.is_whole() ? value.as_integer() < 0 : std::signbit(value.as_float());
  const std::string sign = is_negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  pad(result, MarkedText(sign + digits, value.mark()), sign.size(), spec, spec.align == 0 ? '>' : spec.align, mark);
}

void append_text(MarkedText& result, MarkedText body, const FormatSpec& spec, const TextMark& mark) {
  if (spec.precision >= 0) body = body.part(0, character_offset(body.bytes(), static_cast<size_t>(spec.precision)));
  pad(result, body, 0, spec, spec.align == 0 || spec.align == '=' ? '<' : spec.align, mark);
}

// One field of str.format(): {name.attribute[item]!conversion:spec}.
class FieldFormatter {
 public:
  FieldFormatter(const MarkedText& text, const JinjaCallArguments& arguments) : text_(text), arguments_(arguments) {}

  MarkedText run() {
    const std::string& bytes = text_.bytes();
    MarkedText result;
    for (size_t at = 0; at < bytes.size();) {
      const size_t brace = std::min(bytes.find_first_of("{}", at), bytes.size());
      result.append(text_, at, brace);
      if (brace == bytes.size()) break;
      if (brace + 1 < bytes.size() && bytes[brace + 1] == bytes[brace]) {
        result.append(text_, brace, brace + 1);
        at = brace + 2;
        continue;
      }
      const size_t end = bytes.find_first_of("{}", brace + 1);
      if (bytes[brace] == '}') throw_template_error("Single '}' encountered in format string");
      if (end == std::string::npos) throw_template_error("expected '}' before end of string");
      if (bytes[end] == '{') refuse_format(std::string_view(bytes).substr(brace));
      append_field(result, std::string_view(bytes).substr(brace + 1, end - brace - 1), text_.mark_at(brace));
      at = end + 1;
    }
    return result;
  }

 private:
  void append_field(MarkedText& result, std::string_view field, const TextMark& mark) {
    const size_t colon = std::min(field.find(':'), field.size());
    std::string_view name = field.substr(0, colon);
    const std::string_view spec_text = colon < field.size() ? field.substr(colon + 1) : "";
    char conversion = 0;
    if (const size_t bang = name.find('!'); bang != std::string_view::npos) {
      if (bang + 2 != name.size()) refuse_format(field);
      conversion = name[bang + 1];
      name = name.substr(0, bang);
    }
    const JinjaValue value = field_value(name);
    const FormatSpec spec = parse_spec(spec_text);
    if (conversion == 'r') return append_text(result, python_repr(value), spec, mark);
    if (conversion == 's' || (conversion == 0 && spec_text.empty()))
      return append_text(result, python_str(value), spec, mark);
    if (conversion != 0) refuse_format(field);
    if (value.is(JinjaKind::kString) && (spec.type == 0 || spec.type == 's'))
      return append_text(result, value.text(), spec, mark);
    if (!value.is_number() || value.is(JinjaKind::kBoolean)) refuse_format(field);
    append_number(result, value, spec, mark);
  }

  JinjaValue field_value(std::string_view name) {
    const size_t end = std::min(name.find_first_of(".["), name.size());
    JinjaValue value = first_value(name.substr(0, end));
    for (size_t at = end; at < name.size();) {
      if (name[at] == '.') {
        const size_t next = std::min(name.find_first_of(".[", at + 1), name.size());
        value = get_attribute(value, name.substr(at + 1, next - at - 1));
        at = next;
        continue;
      }
      const size_t close = name.find(']', at);
      if (name[at] != '[' || close == std::string_view::npos) refuse_format(name);
      const std::string_view key = name.substr(at + 1, close - at - 1);
      size_t read = 0;
      const int64_t index = take_number(key, read, -1);
      value = get_item(value, index >= 0 && read == key.size() ? JinjaValue::integer(index)
                                                               : JinjaValue::string(std::string(key), TextMark{}));
      at = close + 1;
    }
    return value;
  }

  JinjaValue first_value(std::string_view name) {
    size_t read = 0;
    int64_t index = name.empty() ? next_++ : take_number(name, read, -1);
    if (!name.empty() && read != name.size()) index = -1;
    if (index >= 0) {
      if (static_cast<size_t>(index) >= arguments_.positional.size())
        throw_template_error(fmt::format("Replacement index {} out of range for positional args tuple", index));
      return arguments_.positional[static_cast<size_t>(index)];
    }
    for (const auto& [known, value] : arguments_.named)
      if (known == name) return value;
    throw_template_error(fmt::format("no argument '{}' for format()", printable(name)));
  }

  const MarkedText& text_;
  const JinjaCallArguments& arguments_;
  int64_t next_ = 0;
};

}  // namespace

MarkedText python_format(const MarkedText& text, const JinjaCallArguments& arguments) {
  return FieldFormatter(text, arguments).run();
}

MarkedText python_percent(const MarkedText& text, const JinjaValue& values) {
  const std::string& bytes = text.bytes();
  MarkedText result;
  size_t next = 0;
  const auto next_value = [&] {
    if (!values.is(JinjaKind::kTuple)) {
      if (next++ > 0) throw_template_error("not enough arguments for format string");
      return values;
    }
    if (next >= values.items().size()) throw_template_error("not enough arguments for format string");
    return values.items()[next++];
  };
  for (size_t at = 0; at < bytes.size();) {
    const size_t sign = std::min(bytes.find('%', at), bytes.size());
    result.append(text, at, sign);
    if (sign == bytes.size()) break;
    at = sign + 1;
    const TextMark mark = text.mark_at(sign);
    std::optional<JinjaValue> named;
    if (at < bytes.size() && bytes[at] == '(') {
      const size_t close = bytes.find(')', at);
      if (close == std::string::npos) throw_template_error("incomplete format key");
      if (!values.is(JinjaKind::kDict)) throw_template_error("format requires a mapping");
      const JinjaValue* found = values.as<JinjaDict>().find(std::string_view(bytes).substr(at + 1, close - at - 1));
      if (found == nullptr) throw_template_error("a format names a key that is not there");
      named = *found;
      next = 1;
      at = close + 1;
    }
    FormatSpec spec;
    for (; at < bytes.size() && (std::string_view("#0- +").find(bytes[at]) != std::string_view::npos); ++at) {
      if (bytes[at] == '#') spec.is_alternate = true;
      if (bytes[at] == '-') spec.align = '<';
      if (bytes[at] == '0' && spec.align == 0) spec.fill = "0", spec.align = '=';
      if (bytes[at] == '+' || (bytes[at] == ' ' && spec.sign != '+')) spec.sign = bytes[at];
    }
    if (spec.align == '<') spec.fill = " ";
    spec.width = take_number(bytes, at, 0);
    if (at < bytes.size() && bytes[at] == '.') {
      ++at;
      spec.precision = take_number(bytes, at, 0);
    }
    if (at >= bytes.size()) throw_template_error("incomplete format");
    spec.type = bytes[at++];
    if (spec.type == '%') {
      result.append("%", mark);
      continue;
    }
    const JinjaValue value = named ? *named : next_value();
    if (spec.type == 's' || spec.type == 'r') {
      if (spec.align == 0) spec.align = '>';
      append_text(result, spec.type == 's' ? python_str(value) : python_repr(value), spec, mark);
      continue;
    }
    if (!(std::string_view("diuxXofFeEgG").find(spec.type) != std::string_view::npos))
      refuse_format(std::string_view(&spec.type, 1));
    if (!value.is_number())
      throw_template_error(fmt::format("%{} format: a number is required, not {}", spec.type, type_name(value)));
    const bool wants_whole = (std::string_view("diuxXo").find(spec.type) != std::string_view::npos);
    if (wants_whole && spec.precision >= 0) refuse_format(bytes);
    append_number(result,
                  wants_whole && !value.is_whole()
                      ? JinjaValue::integer(static_cast<int64_t>(value.as_float()), value.mark())
                      : value,
                  spec, mark);
  }
  const bool all_taken =
      values.is(JinjaKind::kTuple) ? next >= values.items().size() : next > 0 || values.is(JinjaKind::kDict);
  if (!all_taken) throw_template_error("not all arguments converted during string formatting");
  return result;
}

}  // namespace causeway::formats
