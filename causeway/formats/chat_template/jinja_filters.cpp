#include "causeway/formats/chat_template/jinja_filters.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/base/printable.h"
#include "causeway/base/utf8.h"
#include "causeway/formats/chat_template/jinja_lexer.h"
#include "causeway/formats/chat_template/jinja_methods.h"
#include "causeway/formats/chat_template/jinja_operators.h"
#include "causeway/formats/chat_template/python_format.h"
#include "causeway/formats/chat_template/python_text.h"

namespace causeway::formats {
namespace {

// A string as it is, everything else as its text; a safe string stays one.
JinjaValue soft_string(const JinjaValue& value) {
  return value.is(JinjaKind::kString) ? value : JinjaValue::string(python_str(value)).with_mark(value.mark());
}

JinjaValue with_text(const JinjaValue& string, MarkedText text) {
  return JinjaValue::string(std::move(text), string.is_markup()).with_mark(string.mark());
}

std::optional<double> parse_float(std::string_view text) {
  text = python_stripped(text, {}, true, true);
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto is_digit = [&](size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '9'; };
    if (text[i] == '_' && i > 0 && is_digit(i - 1) && is_digit(i + 1)) continue;
    digits += text[i];
  }
  std::string_view rest = digits;
  if (rest.starts_with('+')) rest.remove_prefix(1);
  double value = 0;
  const auto [last, failure] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (rest.empty() || rest.starts_with('+') || last != rest.data() + rest.size()) return std::nullopt;
  if (failure == std::errc::result_out_of_range) return std::strtod(std::string(rest).c_str(), nullptr);
  if (failure != std::errc()) return std::nullopt;
  return value;
}

// int(text, base); none where Python raises ValueError.
std::optional<int64_t> parse_integer(std::string_view text, int64_t base) {
  text = python_stripped(text, {}, true, true);
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  for (const auto& [prefix, prefix_base] : {std::pair{"0x", 16}, {"0o", 8}, {"0b", 2}})
    if (base == prefix_base && text.size() > 2 && text[0] == '0' && (text[1] | 0x20) == prefix[1])
      text.remove_prefix(2);
  std::string digits = is_negative ? "-" : "";
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '_' && i > 0 && text[i - 1] != '_' && i + 1 < text.size()) continue;
    digits += text[i];
  }
  int64_t value = 0;
  const char* end = digits.data() + digits.size();
  if (base < 2 || base > 36) throw Error(ErrorKind::kUnsupported, "the chat template reads integers of another base");
  const auto [last, failure] = std::from_chars(digits.data(), end, value, static_cast<int>(base));
  if (failure == std::errc::result_out_of_range)
    throw Error(ErrorKind::kUnsupported, "the chat template reads an integer of more than 64 bits");
  return failure != std::errc() || last != end ? std::nullopt : std::optional(value);
}

std::optional<int64_t> whole_part(double value) {
  if (std::isnan(value) || std::isinf(value)) return std::nullopt;
  if (std::abs(value) >= 9.2e18)
    throw Error(ErrorKind::kUnsupported, "the chat template makes an integer of more than 64 bits");
  return static_cast<int64_t>(value);
}

JinjaValue filter_to_integer(const JinjaValue& value, std::string_view, const JinjaCallArguments& call) {
  const JinjaBoundArguments arguments("int", call, {"default", "base"});
  if (value.is(JinjaKind::kUndefined)) throw_undefined(value);
  const JinjaValue otherwise = arguments.has(0) ? arguments.value(0) : JinjaValue::integer(0);
  std::optional<int64_t> result;
  if (value.is_whole()) result = value.as_integer();
  if (value.is(JinjaKind::kFloat)) {
    if (std::isinf(value.as_float())) throw_template_error("cannot convert float infinity to integer");
    result = whole_part(value.as_float());
  }
  if (value.is(JinjaKind::kString)) {
    result = parse_integer(value.bytes(), arguments.integer(1, 10));
    if (!result)
      if (const std::optional<double> number = parse_float(value.bytes())) result = whole_part(*number);
  }
  return result ? JinjaValue::integer(*result, value.mark()) : otherwise;
}

JinjaValue filter_to_float(const JinjaValue& value, std::string_view, const JinjaCallArguments& call) {
  const JinjaBoundArguments arguments("float", call, {"default"});
  if (value.is(JinjaKind::kUndefined)) throw_undefined(value);
  std::optional<double> result;
  if (value.is_number()) result = value.as_float();
  if (value.is(JinjaKind::kString)) result = parse_float(value.bytes());
  return result             ? JinjaValue::floating(*result, value.mark())
         : arguments.has(0) ? arguments.value(0)
                            : JinjaValue::floating(0);
}

JinjaValue filter_round(const JinjaValue& value, std::string_view, const JinjaCallArguments& call) {
  const JinjaBoundArguments arguments("round", call, {"precision", "method"});
  const int64_t precision = arguments.integer(0, 0);
  const std::string method = arguments.has(1) ? arguments.text(1).bytes() : "common";
  if (value.is(JinjaKind::kUndefined)) throw_undefined(value);
  if (!value.is_number())
    throw_template_error(fmt::format("type {} doesn't define __round__ method", type_name(value)));
  if (method != "common" && method != "ceil" && method != "floor")
    throw_template_error("method must be common, ceil or floor");
  if (precision < 0 || precision > 300)
    throw Error(ErrorKind::kUnsupported, "the chat template rounds to a precision that is not supported");
  if (method == "common") {
    if (value.is_whole()) return JinjaValue::integer(value.as_integer(), value.mark());
    const std::string written = fmt::format("{:.{}f}", value.as_float(), static_cast<int>(precision));
    return JinjaValue::floating(std::strtod(written.c_str(), nullptr), value.mark());
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = value.as_float() * scale;
  return JinjaValue::floating((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale, value.mark());
}

JinjaValue filter_absolute(const JinjaValue& value, std::string_view, const JinjaCallArguments& call) {
  const JinjaBoundArguments none("abs", call, {});
  if (value.is(JinjaKind::kUndefined) || !value.is_number())
    throw_template_error(fmt::format("bad operand type for abs(): '{}'", type_name(value)));
  const bool is_negative = value.is_whole() ? value.as_integer() < 0 : std::signbit(value.as_float());
  return is_negative ? apply_unary("-", value) : apply_unary("+", value);
}

JinjaValue filter_change_case(const JinjaValue& value, std::string_view name, const JinjaCallArguments& call) {
  const JinjaBoundArguments none(name, call, {});
  const JinjaValue string = soft_string(value);
  return with_text(string, changed_case(string.text(), name));
}

// Words begin after white space and opening brackets, which Python's str.title() sees otherwise.
JinjaValue filter_title(const JinjaValue& value, std::string_view, const JinjaCallArguments& call) {
  const JinjaBoundArguments none("title", call, {});
  const JinjaValue string = soft_string(value);
  const std::string& bytes = string.bytes();
  const auto is_separator = [&](size_t at) {
    return std::string_view("-({[<").find(bytes[at]) != std::string_view::npos ||
           is_python_space(decode_utf8(bytes, at).code_point);
  };
  MarkedText result;
  for (size_t at = 0; at < bytes.size();) {
    size_t end = at;
    const bool separates = is_separator(at);
    while (end < bytes.size() && is_separator(end) == separates) end += decode_utf8(bytes, end).size;
    const size_t rest = separates ? end : at + decode_utf8(bytes, at).size;
    result.append(changed_case(string.text().part(at, rest), "upper"));
    result.append(changed_case(string.text().part(rest, end), "lower"));
    at = end;
  }
  return JinjaValue::string(std::move(result));
}

JinjaValue filter_trim(const JinjaValue& value, std::string_view, const JinjaCallArguments& call) {
  const JinjaBoundArguments arguments("trim", call, {"chars"});
  const JinjaValue string = soft_string(value);
  const std::string characters = arguments.is_set(0) ? arguments.text(0).bytes() : "";
  if (arguments.is_set(0) && characters.empty()) return string;
  return with_text(string, stripped_text(string.text(), characters, true, true));
}

JinjaValue filter_replace(const JinjaValue& value, std::string_view, const JinjaCallArguments& call) {
  const JinjaBoundArguments arguments("replace", call, {"old", "new", "count"}, 2);
  const int64_t count = arguments.is_set(2) ? arguments.integer(2, -1) : -1;
  return JinjaValue::string(
      replaced_text(python_str(value), python_str(arguments.value(0)), python_str(arguments.value(1)), count));
}

JinjaValue filter_default_value(const JinjaValue& value, std::string_view, const JinjaCallArguments& call) {
  const JinjaBoundArguments arguments("default", call, {"default_value", "boolean"});
  const bool is_absent = value.is(JinjaKind::kUndefined) || (arguments.flag(1, false) && !is_true(value));
  if (!is_absent) return value;
  return arguments.has(0) ? arguments.value(0) : JinjaValue::string("", TextMark{});
}

JinjaValue filter_indent(const JinjaValue& value, std::string_view, const JinjaCallArguments& call) {
  const JinjaBoundArguments arguments("indent", call, {"width", "first", "blank"});
  if (!value.is(JinjaKind::kString)) apply_binary("+", value, JinjaValue::string("\n", TextMark{}));
  MarkedText by;
  if (arguments.has(0) && arguments.value(0).is(JinjaKind::kString)) {
    by = arguments.text(0);
  } else {
    const int64_t width = std::max<int64_t>(arguments.integer(0, 4), 0);
    check_text_size(static_cast<size_t>(width));
    by = MarkedText(std::string(static_cast<size_t>(width), ' '), TextMark{});
  }
  MarkedText text = value.text();
  text.append("\n", text.mark_at(text.size()));
  const JinjaValues lines = split_lines(text, false);
  const bool blank = arguments.flag(2, false);
  MarkedText result;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) result.append("\n", text.mark_at(0));
    const bool is_indented = i == 0 ? arguments.flag(1, false) : blank || !lines[i].text().empty();
    if (is_indented) result.append(by);
    result.append(lines[i].text());
    check_text_size(result.size());
  }
  return with_text(value, std::move(result));
}

JinjaValue filter_tojson(const JinjaValue& value, std::string_view, const JinjaCallArguments& call) {
  const JinjaBoundArguments arguments("tojson", call, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style{.ensure_ascii = arguments.flag(0, false), .sort_keys = arguments.flag(3, false)};
  if (arguments.is_set(1)) {
    style.has_indent = true;
    style.item_separator = ",";
    if (arguments.value(1).is(JinjaKind::kString))
      style.indent = arguments.text(1).bytes();
    else
      style.indent = std::string(static_cast<size_t>(std::clamp<int64_t>(arguments.integer(1, 0), 0, 1000)), ' ');
  }
  if (arguments.is_set(2)) {
    const JinjaValues separators = items_of(arguments.value(2));
    if (separators.size() != 2 || !separators[0].is(JinjaKind::kString) || !separators[1].is(JinjaKind::kString))
      throw_template_error("separators must be two texts");
    style.item_separator = separators[0].bytes();
    style.key_separator = separators[1].bytes();
  }
  return JinjaValue::string(python_json(value, style));
}

JinjaValue filter_format(const JinjaValue& value, std::string_view, const JinjaCallArguments& call) {
  if (!call.positional.empty() && !call.named.empty())
    throw_template_error("can't handle positional and keyword arguments at the same time");
  JinjaValue values = JinjaValue::tuple(call.positional);
  if (!call.named.empty()) {
    auto dict = std::make_shared<JinjaDict>();
    for (const auto& [name, argument] : call.named) dict->set(JinjaValue::string(name, TextMark{}), argument);
    values = JinjaValue::object(JinjaKind::kDict, std::move(dict));
  }
  return apply_binary("%", soft_string(value), values);
}

JinjaValue filter_string(const JinjaValue& value, std::string_view, const JinjaCallArguments& call) {
  const JinjaBoundArguments none("string", call, {});
  return soft_string(value);
}

JinjaValue filter_safe(const JinjaValue& value, std::string_view, const JinjaCallArguments& call) {
  const JinjaBoundArguments none("safe", call, {});
  return JinjaValue::string(python_str(value), true).with_mark(value.mark());
}

JinjaValue filter_escape(const JinjaValue& value, std::string_view name, const JinjaCallArguments& call) {
  const JinjaBoundArguments none(name, call, {});
  if (value.is_markup() && name != "forceescape") return value;
  return JinjaValue::string(escaped_text(python_str(value)), true).with_mark(value.mark());
}

JinjaValue filter_center(const JinjaValue& value, std::string_view, const JinjaCallArguments& call) {
  const JinjaBoundArguments arguments("center", call, {"width"});
  const JinjaValue width = arguments.has(0) ? arguments.value(0) : JinjaValue::integer(80);
  return call_string_method(soft_string(value), "center", {.positional = {width}});
}

JinjaValue filter_attribute(const JinjaValue& value, std::string_view, const JinjaCallArguments& call) {
  const JinjaBoundArguments arguments("attr", call, {"name"}, 1);
  if (value.is(JinjaKind::kUndefined)) throw_undefined(value);
  const std::string name = python_str(arguments.value(0)).bytes();
  const std::optional<JinjaValue> found = type_attribute(value, name);
  return found ? *found
               : JinjaValue::undefined(fmt::format("'{}' has no attribute '{}'", object_name(value), printable(name)));
}

struct ValueFilter {
  std::string_view name;
  JinjaValue (*apply)(const JinjaValue&, std::string_view, const JinjaCallArguments&);
};
constexpr ValueFilter kValueFilters[] = {
    {"abs", filter_absolute},       {"attr", filter_attribute},    {"capitalize", filter_change_case},
    {"center", filter_center},      {"d", filter_default_value},   {"default", filter_default_value},
    {"e", filter_escape},           {"escape", filter_escape},     {"float", filter_to_float},
    {"forceescape", filter_escape}, {"format", filter_format},     {"indent", filter_indent},
    {"int", filter_to_integer},     {"lower", filter_change_case}, {"replace", filter_replace},
    {"round", filter_round},        {"safe", filter_safe},         {"string", filter_string},
    {"title", filter_title},        {"tojson", filter_tojson},     {"trim", filter_trim},
    {"upper", filter_change_case},
};

// Jinja's that are not here.
constexpr std::string_view kRefusedFilters[] = {"filesizeformat", "groupby",   "pprint",   "random",
                                                "slice",          "striptags", "truncate", "urlencode",
                                                "urlize",         "wordcount", "wordwrap", "xmlattr"};

const ValueFilter* find_value_filter(std::string_view name) {
  const auto* found = std::ranges::find(kValueFilters, name, &ValueFilter::name);
  return found == std::end(kValueFilters) ? nullptr : found;
}

}  // namespace

bool is_filter(std::string_view name) {
  return find_value_filter(name) != nullptr || is_sequence_filter(name) ||
         std::ranges::find(kRefusedFilters, name) != std::end(kRefusedFilters);
}

void check_filter_name(std::string_view name, bool is_soft, const std::string& where, int line) {
  if (std::ranges::find(kRefusedFilters, name) != std::end(kRefusedFilters))
    throw_unsupported(fmt::format("the filter '{}'", name), where, line);
  if (!is_soft && !is_filter(name))
    throw_syntax_error(fmt::format("No filter named '{}'.", printable(name)), where, line);
}

JinjaValue apply_filter(std::string_view name, const JinjaValue& value, const JinjaCallArguments& call) {
  if (const ValueFilter* filter = find_value_filter(name)) return filter->apply(value, name, call);
  if (std::optional<JinjaValue> result = apply_sequence_filter(name, value, call)) return std::move(*result);
  if (is_filter(name))
    throw Error(ErrorKind::kUnsupported,
                fmt::format("the chat template uses the filter '{}', which is not supported", name));
  throw_template_error(fmt::format("No filter named '{}' found.", printable(name)));
}

}  // namespace causeway::formats
