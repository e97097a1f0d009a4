#include "causeway/formats/chat_template/jinja_methods.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/base/printable.h"
#include "causeway/formats/chat_template/jinja_loop.h"
#include "causeway/formats/chat_template/jinja_macro.h"
#include "causeway/formats/chat_template/jinja_operators.h"

namespace causeway::formats {
namespace {

// The public attributes of Python 3's types, methods or not, between spaces.
constexpr std::string_view kStringAttributes =
    " capitalize casefold center count encode endswith expandtabs find format format_map index isalnum isalpha isascii "
    "isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle isupper join ljust lower lstrip "
    "maketrans partition removeprefix removesuffix replace rfind rindex rjust rpartition rsplit rstrip split "
    "splitlines startswith strip swapcase title translate upper zfill ";
constexpr std::string_view kMarkupAttributes = " escape striptags unescape ";
constexpr std::string_view kDictAttributes =
    " clear copy fromkeys get items keys pop popitem setdefault update values ";
constexpr std::string_view kDictChanges = " clear pop popitem setdefault update ";
constexpr std::string_view kListAttributes = " append clear copy count extend index insert pop remove reverse sort ";
constexpr std::string_view kListChanges = " append clear pop reverse insert sort extend remove ";
constexpr std::string_view kTupleAttributes = " count index ";
constexpr std::string_view kRangeAttributes = " count index start stop step ";
constexpr std::string_view kIntegerAttributes =
    " as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag numerator real to_bytes ";
constexpr std::string_view kFloatAttributes = " as_integer_ratio conjugate fromhex hex imag is_integer real ";
constexpr std::string_view kViewAttributes = " isdisjoint mapping ";
constexpr std::string_view kIteratorAttributes =
    " close gi_code gi_frame gi_running gi_suspended gi_yieldfrom send throw ";

bool is_listed(std::string_view names, std::string_view name) {
  return names.find(fmt::format(" {} ", name)) != std::string_view::npos;
}

std::string_view attributes_of(const JinjaValue& value) {
  switch (value.kind()) {
    case JinjaKind::kString:
      return kStringAttributes;
    case JinjaKind::kDict:
      return kDictAttributes;
    case JinjaKind::kList:
      return kListAttributes;
    case JinjaKind::kTuple:
      return kTupleAttributes;
    case JinjaKind::kRange:
      return kRangeAttributes;
    case JinjaKind::kBoolean:
    case JinjaKind::kInteger:
      return kIntegerAttributes;
    case JinjaKind::kFloat:
      return kFloatAttributes;
    case JinjaKind::kKeys:
    case JinjaKind::kValues:
    case JinjaKind::kItems:
      return kViewAttributes;
    case JinjaKind::kIterator:
      return kIteratorAttributes;
    default:
      return {};
  }
}

JinjaValue forbidden(const JinjaValue& value, std::string_view name) {
  return JinjaValue::undefined(
      fmt::format("access to attribute '{}' of '{}' object is unsafe.", printable(name), type_name(value)), true);
}

JinjaValue method_of(const JinjaValue& value, std::string_view name) {
  auto method = std::make_shared<JinjaMethod>();
  method->self = value;
  method->name = name;
  return JinjaValue::object(JinjaKind::kMethod, std::move(method));
}

JinjaValue view_of(const JinjaValue& dict, JinjaKind kind) {
  auto view = std::make_shared<JinjaView>();
  view->dict = dict;
  return JinjaValue::object(kind, std::move(view), dict.mark());
}

JinjaValue call_dict_method(const JinjaValue& value, const std::string& name, const JinjaCallArguments& call) {
  const auto& dict = value.as<JinjaDict>();
  if (name == "get") {
    const JinjaBoundArguments arguments("get", call, {"key", "default"}, 1);
    const JinjaValue* item = dict.find(arguments.value(0));
    return item != nullptr ? *item : arguments.has(1) ? arguments.value(1) : JinjaValue::none();
  }
  const JinjaBoundArguments none(name, call, {});
  if (name == "keys") return view_of(value, JinjaKind::kKeys);
  if (name == "values") return view_of(value, JinjaKind::kValues);
  if (name == "items") return view_of(value, JinjaKind::kItems);
  if (name == "copy") return value;
  throw Error(ErrorKind::kUnsupported,
              fmt::format("the chat template uses the method dict.{}(), which is not supported", name));
}

JinjaValue call_list_method(const JinjaValue& value, const std::string& name, const JinjaCallArguments& call) {
  if (name == "copy") {
    const JinjaBoundArguments none(name, call, {});
    return value;
  }
  if (name != "count" && name != "index")
    throw Error(
        ErrorKind::kUnsupported,
        fmt::format("the chat template uses the method {}.{}(), which is not supported", type_name(value), name));
  const JinjaBoundArguments arguments(name, call, {"value"}, 1);
  const JinjaValues items = items_of(value);
  const auto is_wanted = [&](const JinjaValue& item) { return is_equal(item, arguments.value(0)); };
  if (name == "count") return JinjaValue::integer(std::ranges::count_if(items, is_wanted));
  const auto place = std::ranges::find_if(items, is_wanted);
  if (place == items.end()) throw_template_error(fmt::format("the value is not in the {}", type_name(value)));
  return JinjaValue::integer(place - items.begin());
}

}  // namespace

std::optional<JinjaValue> type_attribute(const JinjaValue& value, std::string_view name) {
  if (name.starts_with("__") && name.ends_with("__") && name.size() > 4) return forbidden(value, name);
  if (value.is(JinjaKind::kNamespace)) {
    const JinjaValue* member = value.as<JinjaNamespaceReference>().target->find(name);
    return member == nullptr ? std::nullopt : std::optional(*member);
  }
  if (value.is(JinjaKind::kLoop)) {
    if (name == "cycle" || name == "changed") return method_of(value, name);
    return value.as<JinjaLoopReference>().live().attribute(name);
  }
  if (value.is(JinjaKind::kMacro) && name == "name") return JinjaValue::string(value.as<JinjaMacro>().name, TextMark{});
  if (!is_listed(attributes_of(value), name) && !(value.is_markup() && is_listed(kMarkupAttributes, name)))
    return std::nullopt;
  if ((value.is(JinjaKind::kDict) && is_listed(kDictChanges, name)) ||
      (value.is(JinjaKind::kList) && is_listed(kListChanges, name)))
    return forbidden(value, name);
  return method_of(value, name);
}

JinjaValue call_method(const JinjaMethod& method, const JinjaCallArguments& arguments) {
  const JinjaValue& self = method.self;
  switch (self.kind()) {
    case JinjaKind::kString:
      return call_string_method(self, method.name, arguments);
    case JinjaKind::kDict:
      return call_dict_method(self, method.name, arguments);
    case JinjaKind::kList:
    case JinjaKind::kTuple:
    case JinjaKind::kRange:
      return call_list_method(self, method.name, arguments);
    case JinjaKind::kLoop:
      return self.as<JinjaLoopReference>().live().call(method.name, arguments);
    default:
      throw Error(ErrorKind::kUnsupported,
                  fmt::format("the chat template uses the method {}.{}(), which is not supported", type_name(self),
                              method.name));
  }
}

}  // namespace causeway::formats
