#include "causeway/formats/chat_template/jinja_operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/base/utf8.h"
#include "causeway/formats/chat_template/jinja_methods.h"
#include "causeway/formats/chat_template/python_format.h"

namespace causeway::formats {
namespace {

// Of what is computed of two: the first that is a message's or a variable's.
const TextMark& joint_mark(const JinjaValue& left, const JinjaValue& right) {
  return left.mark().is_literal() ? right.mark() : left.mark();
}

[[noreturn]] void refuse_operands(std::string_view symbol, const JinjaValue& left, const JinjaValue& right) {
  if (symbol == "+" && (left.is(JinjaKind::kString) || left.is(JinjaKind::kList) || left.is(JinjaKind::kTuple)))
    throw_template_error(fmt::format("can only concatenate {0} (not \"{1}\") to {0}",
                                     left.is(JinjaKind::kString) ? "str" : type_name(left), type_name(right)));
  throw_template_error(fmt::format("unsupported operand type(s) for {}: '{}' and '{}'",
                                   symbol == "**" ? "** or pow()" : symbol, type_name(left), type_name(right)));
}

[[noreturn]] void refuse_size() {
  throw Error(ErrorKind::kUnsupported, "the chat template computes an integer of more than 64 bits");
}

int64_t floor_quotient(int64_t a, int64_t b) {
  if (b == -1 && a == INT64_MIN) refuse_size();
  return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

int64_t whole_power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) refuse_size();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) refuse_size();
  }
  return result;
}

int64_t apply_whole(char symbol, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (symbol) {
    case '+':
      if (__builtin_add_overflow(a, b, &result)) refuse_size();
      return result;
    case '-':
      if (__builtin_sub_overflow(a, b, &result)) refuse_size();
      return result;
    case '*':
      if (__builtin_mul_overflow(a, b, &result)) refuse_size();
      return result;
    default:
      return b == -1 ? 0 : a - floor_quotient(a, b) * b;  // %
  }
}

double apply_floating(std::string_view symbol, double a, double b) {
  if (symbol == "+") return a + b;
  if (symbol == "-") return a - b;
  if (symbol == "*") return a * b;
  if (symbol == "/") return a / b;
  if (symbol == "//") return std::floor(a / b);
  if (symbol == "**") return std::pow(a, b);
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

JinjaValue apply_numbers(std::string_view symbol, const JinjaValue& left, const JinjaValue& right) {
  const TextMark& mark = joint_mark(left, right);
  const bool divides = symbol == "/" || symbol == "//" || symbol == "%";
  if (divides && right.as_float() == 0)
    throw_template_error(symbol == "/" ? "division by zero" : "integer division or modulo by zero");
  const bool is_whole = left.is_whole() && right.is_whole();
  if (is_whole && symbol == "//")
    return JinjaValue::integer(floor_quotient(left.as_integer(), right.as_integer()), mark);
  if (is_whole && symbol == "**" && right.as_integer() >= 0)
    return JinjaValue::integer(whole_power(left.as_integer(), right.as_integer()), mark);
  if (is_whole && symbol.size() == 1 && symbol != "/")
    return JinjaValue::integer(apply_whole(symbol[0], left.as_integer(), right.as_integer()), mark);
  if (symbol == "**" && (left.as_float() < 0 || (left.as_float() == 0 && right.as_float() < 0)) &&
      (left.as_float() == 0 || right.as_float() != std::floor(right.as_float())))
    throw_template_error("a power that is no real number");
  return JinjaValue::floating(apply_floating(symbol, left.as_float(), right.as_float()), mark);
}

JinjaValue repeated(const JinjaValue& value, int64_t times) {
  const size_t count = times < 0 ? 0 : static_cast<size_t>(times);
  if (value.is(JinjaKind::kString)) {
    if (!value.text().empty()) {
      check_text_size(count);
      check_text_size(count * value.text().size());
    }
    MarkedText text;
    for (size_t i = 0; i < count && !value.text().empty(); ++i) text.append(value.text());
    return JinjaValue::string(std::move(text), value.is_markup());
  }
  check_item_count(count);
  check_item_count(count * std::max<size_t>(1, value.items().size()));
  JinjaValues items;
  for (size_t i = 0; i < count; ++i) items.insert(items.end(), value.items().begin(), value.items().end());
  return value.is(JinjaKind::kList) ? JinjaValue::list(std::move(items), value.mark())
                                    : JinjaValue::tuple(std::move(items), value.mark());
}

JinjaValue joined_strings(const JinjaValue& left, const JinjaValue& right) {
  const bool is_markup = left.is_markup() || right.is_markup();
  check_text_size(left.text().size() + right.text().size());
  MarkedText text = is_markup && !left.is_markup() ? escaped_text(left.text()) : left.text();
  text.append(is_markup && !right.is_markup() ? escaped_text(right.text()) : right.text());
  return JinjaValue::string(std::move(text), is_markup);
}

JinjaValue joined_lists(const JinjaValue& left, const JinjaValue& right) {
  check_item_count(left.items().size() + right.items().size());
  JinjaValues items = left.items();
  items.insert(items.end(), right.items().begin(), right.items().end());
  return left.is(JinjaKind::kList) ? JinjaValue::list(std::move(items), joint_mark(left, right))
                                   : JinjaValue::tuple(std::move(items), joint_mark(left, right));
}

// Where the sequence's item `index` of `count` is, with negative ones from the end.
std::optional<size_t> place_of(int64_t index, size_t count) {
  const auto size = static_cast<int64_t>(count);
  if (index < 0) index += size;
  return index < 0 || index >= size ? std::nullopt : std::optional(static_cast<size_t>(index));
}

JinjaValue character_at(const JinjaValue& string, size_t index) {
  const std::string& bytes = string.bytes();
  const size_t begin = character_offset(bytes, index);
  return JinjaValue::string(string.text().part(begin, begin + decode_utf8(bytes, begin).size), string.is_markup());
}

std::optional<JinjaValue> sequence_item(const JinjaValue& value, const JinjaValue& key) {
  if (!key.is_whole()) return std::nullopt;
  const bool is_sequence = value.is(JinjaKind::kString) || value.is(JinjaKind::kList) || value.is(JinjaKind::kTuple) ||
                           value.is(JinjaKind::kRange);
  if (!is_sequence) return std::nullopt;
  const std::optional<size_t> place = place_of(key.as_integer(), length_of(value));
  if (!place) return std::nullopt;
  if (value.is(JinjaKind::kString)) return character_at(value, *place);
  if (value.is(JinjaKind::kRange)) return JinjaValue::integer(value.as<JinjaRange>().at(*place));
  return value.items()[*place];
}

JinjaValue undefined_member(const JinjaValue& value, const JinjaValue& name) {
  const std::string written = python_repr(name).bytes();
  return JinjaValue::undefined(name.is(JinjaKind::kString)
                                   ? fmt::format("'{}' has no attribute {}", object_name(value), written)
                                   : fmt::format("{} has no element {}", object_name(value), written));
}

}  // namespace

void check_item_count(size_t count) {
  if (count > kMostItems)
    throw Error(ErrorKind::kResource, fmt::format("the chat template makes a list of more than {} items", kMostItems));
}

void check_text_size(size_t bytes) {
  if (bytes > kMostTextBytes)
    throw Error(ErrorKind::kResource,
                fmt::format("the chat template makes a text of more than {} bytes", kMostTextBytes));
}

JinjaValue apply_binary(std::string_view symbol, const JinjaValue& left, const JinjaValue& right) {
  if (left.is(JinjaKind::kUndefined)) throw_undefined(left);
  if (symbol == "%" && left.is(JinjaKind::kString)) {
    if (left.is_markup()) throw Error(ErrorKind::kUnsupported, "the chat template formats a safe text by %");
    return JinjaValue::string(python_percent(left.text(), right));
  }
  if (right.is(JinjaKind::kUndefined)) throw_undefined(right);
  if (left.is_number() && right.is_number()) return apply_numbers(symbol, left, right);
  if (symbol == "+" && left.is(JinjaKind::kString) && right.is(JinjaKind::kString)) return joined_strings(left, right);
  if (symbol == "+" && left.kind() == right.kind() && (left.is(JinjaKind::kList) || left.is(JinjaKind::kTuple)))
    return joined_lists(left, right);
  const auto is_sequence = [](const JinjaValue& value) {
    return value.is(JinjaKind::kString) || value.is(JinjaKind::kList) || value.is(JinjaKind::kTuple);
  };
  if (symbol == "*" && is_sequence(left) && right.is_whole()) return repeated(left, right.as_integer());
  if (symbol == "*" && left.is_whole() && is_sequence(right)) return repeated(right, left.as_integer());
  refuse_operands(symbol, left, right);
}

JinjaValue apply_unary(std::string_view symbol, const JinjaValue& value) {
  if (value.is(JinjaKind::kUndefined)) throw_undefined(value);
  if (!value.is_number())
    throw_template_error(fmt::format("bad operand type for unary {}: '{}'", symbol, type_name(value)));
  if (value.is(JinjaKind::kFloat))
    return JinjaValue::floating(symbol == "-" ? -value.as_float() : value.as_float(), value.mark());
  if (symbol == "-" && value.as_integer() == INT64_MIN) refuse_size();
  return JinjaValue::integer(symbol == "-" ? -value.as_integer() : value.as_integer(), value.mark());
}

bool is_contained(const JinjaValue& value, const JinjaValue& container) {
  switch (container.kind()) {
    case JinjaKind::kString:
      if (!value.is(JinjaKind::kString))
        throw_template_error(fmt::format("'in <string>' requires string as left operand, not {}", type_name(value)));
      return container.bytes().find(value.bytes()) != std::string::npos;
    case JinjaKind::kDict:
      return container.as<JinjaDict>().find(value) != nullptr;
    case JinjaKind::kKeys:
      return container.as<JinjaView>().dict.as<JinjaDict>().find(value) != nullptr;
    case JinjaKind::kUndefined:
      return false;
    default:
      if (!is_iterable(container))
        throw_template_error(fmt::format("argument of type '{}' is not iterable", type_name(container)));
  }
  JinjaItems items(container);
  while (const std::optional<JinjaValue> item = items.next())
    if (is_equal(*item, value)) return true;
  return false;
}

JinjaValue get_slice(const JinjaValue& value, const JinjaValue& start, const JinjaValue& stop, const JinjaValue& step) {
  if (value.is(JinjaKind::kUndefined)) throw_undefined(value);
  const bool is_sequence = value.is(JinjaKind::kString) || value.is(JinjaKind::kList) || value.is(JinjaKind::kTuple) ||
                           value.is(JinjaKind::kRange);
  const auto is_index = [](const JinjaValue& index) { return index.is(JinjaKind::kNone) || index.is_whole(); };
  if (!is_sequence || !is_index(start) || !is_index(stop) || !is_index(step))
    return JinjaValue::undefined(fmt::format("{} has no element slice({}, {}, {})", object_name(value),
                                             python_repr(start).bytes(), python_repr(stop).bytes(),
                                             python_repr(step).bytes()));
  const int64_t by = step.is(JinjaKind::kNone) ? 1 : step.as_integer();
  if (by == 0) throw_template_error("slice step cannot be zero");
  const auto count = static_cast<int64_t>(length_of(value));
  const auto bound = [&](const JinjaValue& given, int64_t otherwise) {
    if (given.is(JinjaKind::kNone)) return otherwise;
    const int64_t index = given.as_integer() < 0 ? given.as_integer() + count : given.as_integer();
    return std::clamp<int64_t>(index, by > 0 ? 0 : -1, by > 0 ? count : count - 1);
  };
  const int64_t first = bound(start, by > 0 ? 0 : count - 1), last = bound(stop, by > 0 ? count : -1);
  if (value.is(JinjaKind::kString) && by == 1) {
    const std::string& bytes = value.bytes();
    if (first >= last) return JinjaValue::string(MarkedText(), value.is_markup()).with_mark(value.mark());
    const size_t begin = character_offset(bytes, static_cast<size_t>(first));
    const size_t size = character_offset(std::string_view(bytes).substr(begin), static_cast<size_t>(last - first));
    return JinjaValue::string(value.text().part(begin, begin + size), value.is_markup());
  }
  const JinjaValues all = items_of(value);
  JinjaValues items;
  for (int64_t i = first; by > 0 ? i < last : i > last;) {
    items.push_back(all[static_cast<size_t>(i)]);
    if (__builtin_add_overflow(i, by, &i)) break;
  }
  if (value.is(JinjaKind::kList)) return JinjaValue::list(std::move(items), value.mark());
  if (value.is(JinjaKind::kTuple)) return JinjaValue::tuple(std::move(items), value.mark());
  if (value.is(JinjaKind::kRange)) throw Error(ErrorKind::kUnsupported, "the chat template slices a range");
  MarkedText text;
  for (const JinjaValue& item : items) text.append(item.text());
  return JinjaValue::string(std::move(text), value.is_markup()).with_mark(value.mark());
}

JinjaValue get_item(const JinjaValue& value, const JinjaValue& key) {
  if (value.is(JinjaKind::kUndefined)) throw_undefined(value);
  if (value.is(JinjaKind::kDict)) {
    const bool has_hash = !key.is(JinjaKind::kList) && !key.is(JinjaKind::kDict);
    if (const JinjaValue* item = has_hash ? value.as<JinjaDict>().find(key) : nullptr) return *item;
  } else if (const std::optional<JinjaValue> item = sequence_item(value, key)) {
    return *item;
  }
  if (key.is(JinjaKind::kString))
    if (const std::optional<JinjaValue> attribute = type_attribute(value, key.bytes())) return *attribute;
  return undefined_member(value, key);
}

JinjaValue get_attribute(const JinjaValue& value, std::string_view name) {
  if (value.is(JinjaKind::kUndefined)) throw_undefined(value);
  if (const std::optional<JinjaValue> attribute = type_attribute(value, name)) return *attribute;
  if (value.is(JinjaKind::kDict))
    if (const JinjaValue* item = value.as<JinjaDict>().find(name)) return *item;
  return undefined_member(value, JinjaValue::string(std::string(name), TextMark{}));
}

size_t length_of(const JinjaValue& value) {
  switch (value.kind()) {
    case JinjaKind::kUndefined:
      return 0;
    case JinjaKind::kString:
      return character_count(value.bytes());
    case JinjaKind::kList:
    case JinjaKind::kTuple:
      return value.items().size();
    case JinjaKind::kDict:
      return value.as<JinjaDict>().entries().size();
    case JinjaKind::kKeys:
    case JinjaKind::kValues:
    case JinjaKind::kItems:
      return length_of(value.as<JinjaView>().dict);
    case JinjaKind::kRange:
      return value.as<JinjaRange>().count;
    default:
      throw_template_error(fmt::format("object of type '{}' has no len()", type_name(value)));
  }
}

bool is_iterable(const JinjaValue& value) {
  switch (value.kind()) {
    case JinjaKind::kUndefined:
    case JinjaKind::kString:
    case JinjaKind::kList:
    case JinjaKind::kTuple:
    case JinjaKind::kDict:
    case JinjaKind::kIterator:
    case JinjaKind::kKeys:
    case JinjaKind::kValues:
    case JinjaKind::kItems:
    case JinjaKind::kRange:
      return true;
    default:
      return false;
  }
}

JinjaItems::JinjaItems(const JinjaValue& iterable) : iterable_(iterable) {
  if (!is_iterable(iterable)) throw_template_error(fmt::format("'{}' object is not iterable", type_name(iterable)));
}

std::optional<JinjaValue> JinjaItems::next() {
  switch (iterable_.kind()) {
    case JinjaKind::kString: {
      const std::string& bytes = iterable_.bytes();
      if (position_ >= bytes.size()) return std::nullopt;
      const size_t begin = std::exchange(position_, position_ + decode_utf8(bytes, position_).size);
      return JinjaValue::string(iterable_.text().part(begin, position_));
    }
    case JinjaKind::kList:
    case JinjaKind::kTuple:
      if (position_ >= iterable_.items().size()) return std::nullopt;
      return iterable_.items()[position_++];
    case JinjaKind::kRange:
      if (position_ >= iterable_.as<JinjaRange>().count) return std::nullopt;
      return JinjaValue::integer(iterable_.as<JinjaRange>().at(position_++));
    case JinjaKind::kIterator: {
      const auto& iterator = iterable_.as<JinjaIterator>();
      if (iterator.position >= iterator.items.size()) return std::nullopt;
      return iterator.items[iterator.position++];
    }
    case JinjaKind::kUndefined:
      return std::nullopt;
    default:
      break;
  }
  const JinjaValue& dict = iterable_.is(JinjaKind::kDict) ? iterable_ : iterable_.as<JinjaView>().dict;
  const auto& entries = dict.as<JinjaDict>().entries();
  if (position_ >= entries.size()) return std::nullopt;
  const JinjaDict::Entry& entry = entries[position_++];
  if (iterable_.is(JinjaKind::kValues)) return entry.second;
  if (iterable_.is(JinjaKind::kItems)) return JinjaValue::tuple({entry.first, entry.second}, iterable_.mark());
  return entry.first;
}

std::optional<size_t> JinjaItems::length() const {
  if (iterable_.is(JinjaKind::kIterator)) return std::nullopt;
  return length_of(iterable_);
}

JinjaValues items_of(const JinjaValue& iterable) {
  JinjaItems source(iterable);
  JinjaValues items;
  while (std::optional<JinjaValue> item = source.next()) {
    items.push_back(std::move(*item));
    check_item_count(items.size());
  }
  return items;
}

MarkedText escaped_text(const MarkedText& text) {
  MarkedText result;
  const std::string& bytes = text.bytes();
  for (size_t at = 0; at < bytes.size();) {
    const size_t next = std::min(bytes.find_first_of("&<>'\"", at), bytes.size());
    result.append(text, at, next);
    at = next;
    if (at == bytes.size()) break;
    const char c = bytes[at];
    result.append(c == '&'    ? "&amp;"
                  : c == '<'  ? "&lt;"
                  : c == '>'  ? "&gt;"
                  : c == '\'' ? "&#39;"
                              : "&#34;",
                  text.mark_at(at));
    ++at;
  }
  check_text_size(result.size());
  return result;
}

}  // namespace causeway::formats
