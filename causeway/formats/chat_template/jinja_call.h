// The arguments of a call of a function, method, filter or test, and how they meet its parameters.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "causeway/formats/chat_template/jinja_value.h"

namespace causeway::formats {

struct JinjaCallArguments {
  JinjaValues positional;
  std::vector<std::pair<std::string, JinjaValue>> named = {};

  bool empty() const { return positional.empty() && named.empty(); }
};

// Arguments by parameter. Throws Error for too many, and for names that no parameter has.
class JinjaBoundArguments {
 public:
  // `parameters`: those that may be given by name or place; `required` of them must be given.
  JinjaBoundArguments(std::string_view function, const JinjaCallArguments& arguments,
                      std::initializer_list<std::string_view> parameters, size_t required = 0);

  bool has(size_t index) const { return values_[index].has_value(); }
  const JinjaValue& value(size_t index) const { return *values_[index]; }
  // Of one that is given and not none.
  bool is_set(size_t index) const { return has(index) && !value(index).is(JinjaKind::kNone); }
  bool flag(size_t index, bool otherwise) const { return has(index) ? is_true(value(index)) : otherwise; }
  // Throw Error for another type.
  int64_t integer(size_t index, int64_t otherwise) const;
  const MarkedText& text(size_t index) const;

 private:
  std::string function_;
  std::vector<std::optional<JinjaValue>> values_;
};

}  // namespace causeway::formats
