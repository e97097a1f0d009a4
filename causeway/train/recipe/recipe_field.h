// One key of a recipe: how its value is read from text and printed. A field refers to the value, which outlives it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/base/field_words.h"
#include "causeway/base/named_values.h"
#include "causeway/namespaces.h"

namespace causeway::train {

struct Field {
  std::string key;
  std::string meaning;
  std::string kind;                             // "an integer", for messages and lists
  std::function<bool(const std::string&)> set;  // false, or Error(kInvalidArgument): it is no such value
  std::function<std::string()> get;
  std::vector<std::string> choices = {};
};

// Of a whole number ("1000", or "1e3"), a finite number, a truth and a text.
Field field(std::string key, int64_t& value, std::string meaning);
Field field(std::string key, double& value, std::string meaning);
Field field(std::string key, bool& value, std::string meaning);
Field field(std::string key, std::string& value, std::string meaning);
// Of bytes, with a unit ("16GiB", base/byte_size.h), or 0.
Field bytes_field(std::string key, int64_t& value, std::string meaning);

// Of one of several names. `set` says whether the text is one; `what` they are names of, for hints.
Field choice(std::string key, std::string meaning, std::vector<std::string> choices, NameOf what,
             std::function<bool(const std::string&)> set, std::function<std::string_view()> get);

template <NamedEnum Enum>
Field choice(std::string key, Enum& value, std::string meaning, NameOf what = NameOf::kOther) {
  return choice(
      std::move(key), std::move(meaning), names_of<Enum>(), what,
      [&value](const std::string& text) {
        const std::optional<Enum> named = value_named<Enum>(text);
        if (named) value = *named;
        return named.has_value();
      },
      [&value] { return name_of(value); });
}

}  // namespace causeway::train
