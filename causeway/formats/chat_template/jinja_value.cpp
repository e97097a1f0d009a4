#include "causeway/formats/chat_template/jinja_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "causeway/base/error.h"

namespace causeway::formats {
namespace {

int nesting_of(const JinjaValue& value) {
  switch (value.kind()) {
    case JinjaKind::kList:
    case JinjaKind::kTuple:
      return value.as<JinjaList>().nesting;
    case JinjaKind::kIterator:
      return value.as<JinjaIterator>().nesting;
    case JinjaKind::kDict:
      return value.as<JinjaDict>().nesting();
    case JinjaKind::kKeys:
    case JinjaKind::kValues:
    case JinjaKind::kItems:
      return nesting_of(value.as<JinjaView>().dict) + 1;
    case JinjaKind::kMethod:
      return nesting_of(value.as<JinjaMethod>().self) + 1;
    default:
      return 0;
  }
}

int nesting_around(const JinjaValue& value, int nesting) {
  nesting = std::max(nesting, nesting_of(value) + 1);
  if (nesting > kMostNesting)
    throw_template_error(fmt::format("lists and objects within one another deeper than {}", kMostNesting));
  return nesting;
}

int nesting_around(const JinjaValues& items) {
  int nesting = 1;
  for (const JinjaValue& item : items) nesting = nesting_around(item, nesting);
  return nesting;
}

// The same for keys that are equal. Throws Error for what has no hash.
std::string key_name(const JinjaValue& key) {
  switch (key.kind()) {
    case JinjaKind::kString:
      return "s" + key.bytes();
    case JinjaKind::kNone:
      return "n";
    case JinjaKind::kBoolean:
    case JinjaKind::kInteger:
      return fmt::format("i{}", key.as_integer());
    case JinjaKind::kFloat: {
      const double value = key.as_float();
      if (value == std::floor(value) && std::abs(value) < 9e15) return fmt::format("i{}", static_cast<int64_t>(value));
      return fmt::format("f{}", value);
    }
    case JinjaKind::kTuple: {
      std::string name = "t";
      for (const JinjaValue& item : key.items()) {
        const std::string part = key_name(item);
        name += fmt::format("{}:{}", part.size(), part);
      }
      return name;
    }
    case JinjaKind::kUndefined:
      return "u";
    case JinjaKind::kList:
    case JinjaKind::kDict:
      throw_template_error(fmt::format("unhashable type: '{}'", type_name(key)));
    default:
      return fmt::format("o{}", static_cast<const void*>(key.identity()));
  }
}

int sign_of(double difference) { return difference < 0 ? -1 : difference > 0 ? 1 : 0; }

int compare_numbers(const JinjaValue& left, const JinjaValue& right) {
  if (left.is_whole() && right.is_whole())
    return left.as_integer() < right.as_integer() ? -1 : left.as_integer() > right.as_integer() ? 1 : 0;
  return sign_of(left.as_float() - right.as_float());
}

bool equal_items(const JinjaValues& left, const JinjaValues& right) {
  return std::ranges::equal(left, right, [](const JinjaValue& a, const JinjaValue& b) { return is_equal(a, b); });
}

bool equal_dicts(const JinjaDict& left, const JinjaDict& right) {
  if (left.entries().size() != right.entries().size()) return false;
  return std::ranges::all_of(left.entries(), [&](const JinjaDict::Entry& entry) {
    const JinjaValue* other = right.find(entry.first);
    return other != nullptr && is_equal(entry.second, *other);
  });
}

}  // namespace

JinjaValue JinjaValue::none(const TextMark& mark) {
  JinjaValue value;
  value.kind_ = JinjaKind::kNone;
  value.mark_ = mark;
  return value;
}

JinjaValue JinjaValue::boolean(bool given, const TextMark& mark) {
  JinjaValue value = integer(given ? 1 : 0, mark);
  value.kind_ = JinjaKind::kBoolean;
  return value;
}

JinjaValue JinjaValue::integer(int64_t given, const TextMark& mark) {
  JinjaValue value;
  value.kind_ = JinjaKind::kInteger;
  value.integer_ = given;
  value.mark_ = mark;
  return value;
}

JinjaValue JinjaValue::floating(double given, const TextMark& mark) {
  JinjaValue value;
  value.kind_ = JinjaKind::kFloat;
  value.float_ = given;
  value.mark_ = mark;
  return value;
}

JinjaValue JinjaValue::string(MarkedText text, bool is_markup) {
  auto string = std::make_shared<JinjaString>();
  const TextMark mark = text.mark_at(0);
  string->text = std::move(text);
  string->is_markup = is_markup;
  return object(JinjaKind::kString, std::move(string), mark);
}

JinjaValue JinjaValue::string(std::string bytes, const TextMark& mark) {
  JinjaValue value = string(MarkedText(std::move(bytes), mark));
  value.mark_ = mark;
  return value;
}

JinjaValue JinjaValue::list(JinjaValues items, const TextMark& mark) {
  auto list = std::make_shared<JinjaList>();
  list->nesting = nesting_around(items);
  list->items = std::move(items);
  return object(JinjaKind::kList, std::move(list), mark);
}

JinjaValue JinjaValue::tuple(JinjaValues items, const TextMark& mark) {
  JinjaValue value = list(std::move(items), mark);
  value.kind_ = JinjaKind::kTuple;
  return value;
}

JinjaValue JinjaValue::iterator(JinjaValues items, const TextMark& mark) {
  auto iterator = std::make_shared<JinjaIterator>();
  iterator->nesting = nesting_around(items);
  iterator->items = std::move(items);
  return object(JinjaKind::kIterator, std::move(iterator), mark);
}

JinjaValue JinjaValue::object(JinjaKind kind, std::shared_ptr<const JinjaObject> object, const TextMark& mark) {
  JinjaValue value;
  value.kind_ = kind;
  value.object_ = std::move(object);
  value.mark_ = mark;
  return value;
}

JinjaValue JinjaValue::undefined(std::string message, bool is_forbidden) {
  auto undefined = std::make_shared<JinjaUndefined>();
  undefined->message = std::move(message);
  undefined->is_forbidden = is_forbidden;
  return object(JinjaKind::kUndefined, std::move(undefined));
}

JinjaValue JinjaValue::with_mark(const TextMark& mark) const {
  JinjaValue value = *this;
  value.mark_ = mark;
  return value;
}

double JinjaValue::as_float() const { return kind_ == JinjaKind::kFloat ? float_ : static_cast<double>(integer_); }

const MarkedText& JinjaValue::text() const { return as<JinjaString>().text; }

bool JinjaValue::is_markup() const { return kind_ == JinjaKind::kString && as<JinjaString>().is_markup; }

const JinjaValues& JinjaValue::items() const { return as<JinjaList>().items; }

void JinjaDict::set(JinjaValue key, JinjaValue value) {
  nesting_ = nesting_around(value, nesting_around(key, nesting_));
  const auto [place, is_new] = places_.emplace(key_name(key), entries_.size());
  if (is_new)
    entries_.emplace_back(std::move(key), std::move(value));
  else
    entries_[place->second].second = std::move(value);
}

const JinjaValue* JinjaDict::find(const JinjaValue& key) const {
  const auto place = places_.find(key_name(key));
  return place == places_.end() ? nullptr : &entries_[place->second].second;
}

const JinjaValue* JinjaDict::find(std::string_view key) const {
  const auto place = places_.find("s" + std::string(key));
  return place == places_.end() ? nullptr : &entries_[place->second].second;
}

JinjaValue* JinjaNamespace::find(std::string_view name) {
  const auto member = std::ranges::find(members, name, [](const auto& entry) { return std::string_view(entry.first); });
  return member == members.end() ? nullptr : &member->second;
}

void JinjaNamespace::set(std::string_view name, JinjaValue value) {
  if (JinjaValue* member = find(name))
    *member = std::move(value);
  else
    members.emplace_back(name, std::move(value));
}

std::string_view type_name(const JinjaValue& value) {
  switch (value.kind()) {
    case JinjaKind::kUndefined:
      return "Undefined";
    case JinjaKind::kNone:
      return "NoneType";
    case JinjaKind::kBoolean:
      return "bool";
    case JinjaKind::kInteger:
      return "int";
    case JinjaKind::kFloat:
      return "float";
    case JinjaKind::kString:
      return value.is_markup() ? "Markup" : "str";
    case JinjaKind::kList:
      return "list";
    case JinjaKind::kTuple:
      return "tuple";
    case JinjaKind::kDict:
      return "dict";
    case JinjaKind::kIterator:
      return "generator";
    case JinjaKind::kKeys:
      return "dict_keys";
    case JinjaKind::kValues:
      return "dict_values";
    case JinjaKind::kItems:
      return "dict_items";
    case JinjaKind::kRange:
      return "range";
    case JinjaKind::kNamespace:
      return "TemplateNamespace";
    case JinjaKind::kLoop:
      return "LoopContext";
    case JinjaKind::kMacro:
      return "Macro";
    case JinjaKind::kMethod:
      return "builtin_function_or_method";
    case JinjaKind::kFunction:
      return "function";
  }
  return "object";
}

std::string object_name(const JinjaValue& value) {
  switch (value.kind()) {
    case JinjaKind::kNone:
      return "None";
    case JinjaKind::kNamespace:
      return "transformers.utils.chat_template_utils.TemplateNamespace object";
    case JinjaKind::kLoop:
    case JinjaKind::kMacro:
      return fmt::format("jinja2.runtime.{} object", type_name(value));
    case JinjaKind::kString:
      return value.is_markup() ? "markupsafe.Markup object" : "str object";
    default:
      return fmt::format("{} object", type_name(value));
  }
}

bool is_true(const JinjaValue& value) {
  switch (value.kind()) {
    case JinjaKind::kUndefined:
    case JinjaKind::kNone:
      return false;
    case JinjaKind::kBoolean:
    case JinjaKind::kInteger:
      return value.as_integer() != 0;
    case JinjaKind::kFloat:
      return value.as_float() != 0;
    case JinjaKind::kString:
      return !value.text().empty();
    case JinjaKind::kList:
    case JinjaKind::kTuple:
      return !value.items().empty();
    case JinjaKind::kDict:
      return !value.as<JinjaDict>().entries().empty();
    case JinjaKind::kKeys:
    case JinjaKind::kValues:
    case JinjaKind::kItems:
      return is_true(value.as<JinjaView>().dict);
    case JinjaKind::kRange:
      return value.as<JinjaRange>().count > 0;
    default:
      return true;
  }
}

bool is_equal(const JinjaValue& left, const JinjaValue& right) {
  if (left.is_number() && right.is_number())
    return compare_numbers(left, right) == 0 && !std::isnan(left.as_float()) && !std::isnan(right.as_float());
  if (left.kind() != right.kind()) return false;
  switch (left.kind()) {
    case JinjaKind::kUndefined:
    case JinjaKind::kNone:
      return true;
    case JinjaKind::kString:
      return left.bytes() == right.bytes();
    case JinjaKind::kList:
    case JinjaKind::kTuple:
      return equal_items(left.items(), right.items());
    case JinjaKind::kDict:
      return equal_dicts(left.as<JinjaDict>(), right.as<JinjaDict>());
    case JinjaKind::kNamespace:
      return left.as<JinjaNamespaceReference>().target == right.as<JinjaNamespaceReference>().target;
    case JinjaKind::kRange: {
      const JinjaRange &a = left.as<JinjaRange>(), &b = right.as<JinjaRange>();
      return a.count == b.count && (a.count == 0 || (a.start == b.start && (a.count == 1 || a.step == b.step)));
    }
    case JinjaKind::kMethod:
      return left.as<JinjaMethod>().name == right.as<JinjaMethod>().name &&
             left.as<JinjaMethod>().self.identity() == right.as<JinjaMethod>().self.identity();
    case JinjaKind::kFunction:
      return left.as<JinjaFunction>().name == right.as<JinjaFunction>().name;
    default:
      return left.identity() == right.identity();
  }
}

int compare_values(const JinjaValue& left, const JinjaValue& right, std::string_view symbol) {
  if (left.is_number() && right.is_number()) return compare_numbers(left, right);
  if (left.is(JinjaKind::kUndefined)) throw_undefined(left);
  if (right.is(JinjaKind::kUndefined)) throw_undefined(right);
  if (left.is(JinjaKind::kString) && right.is(JinjaKind::kString)) {
    const int order = left.bytes().compare(right.bytes());  // the order of code points
    return order < 0 ? -1 : order > 0 ? 1 : 0;
  }
  if (left.kind() == right.kind() && (left.is(JinjaKind::kList) || left.is(JinjaKind::kTuple))) {
    const JinjaValues &a = left.items(), &b = right.items();
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
      if (!is_equal(a[i], b[i])) return compare_values(a[i], b[i], symbol);
    return a.size() < b.size() ? -1 : a.size() > b.size() ? 1 : 0;
  }
  throw_template_error(
      fmt::format("'{}' not supported between instances of '{}' and '{}'", symbol, type_name(left), type_name(right)));
}

void throw_template_error(std::string message) { throw Error(ErrorKind::kInvalidArgument, std::move(message)); }

void throw_undefined(const JinjaValue& value) {
  if (value.identity() == nullptr) throw_template_error("an undefined value is used");
  throw_template_error(value.as<JinjaUndefined>().message);
}

}  // namespace causeway::formats
