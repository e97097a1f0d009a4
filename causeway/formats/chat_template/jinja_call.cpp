#include "causeway/formats/chat_template/jinja_call.h"

#include <fmt/format.h>

#include <algorithm>

#include "causeway/base/printable.h"

namespace causeway::formats {

JinjaBoundArguments::JinjaBoundArguments(std::string_view function, const JinjaCallArguments& arguments,
                                         std::initializer_list<std::string_view> parameters, size_t required)
    : function_(function), values_(parameters.size()) {
  if (arguments.positional.size() > parameters.size())
    throw_template_error(fmt::format("{}() takes at most {} arguments ({} given)", function, parameters.size(),
                                     arguments.positional.size()));
  for (size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto* parameter = std::ranges::find(parameters, name);
    if (parameter == parameters.end())
      throw_template_error(fmt::format("{}() got an unexpected keyword argument '{}'", function, printable(name)));
    std::optional<JinjaValue>& place = values_[static_cast<size_t>(parameter - parameters.begin())];
    if (place) throw_template_error(fmt::format("{}() got multiple values for argument '{}'", function, name));
    place = value;
  }
  for (size_t i = 0; i < required; ++i)
    if (!values_[i])
      throw_template_error(fmt::format("{}() misses the argument '{}'", function, *(parameters.begin() + i)));
}

int64_t JinjaBoundArguments::integer(size_t index, int64_t otherwise) const {
  if (!has(index)) return otherwise;
  const JinjaValue& given = value(index);
  if (given.is(JinjaKind::kUndefined)) throw_undefined(given);
  if (!given.is_whole())
    throw_template_error(
        fmt::format("'{}' object cannot be interpreted as an integer (in {}())", type_name(given), function_));
  return given.as_integer();
}

const MarkedText& JinjaBoundArguments::text(size_t index) const {
  const JinjaValue& given = value(index);
  if (!given.is(JinjaKind::kString))
    throw_template_error(fmt::format("{}() takes a str, not '{}'", function_, type_name(given)));
  return given.text();
}

}  // namespace causeway::formats
