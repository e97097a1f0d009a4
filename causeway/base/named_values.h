// Names of an enumeration's values: one table of each, which parses, prints and lists them.
//
//   enum class Fruit { kApple, kPear };
//   constexpr auto named_values(Fruit) {
//     return std::to_array<NamedValue<Fruit>>({{Fruit::kApple, "apple"}, {Fruit::kPear, "pear"}});
//   }
//
// The function stands in the enumeration's namespace, where it is found by its argument. fmt prints the names.
#pragma once

#include <fmt/format.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace causeway {

template <class Enum>
struct NamedValue {
  Enum value;
  std::string_view name;
};

template <class Enum>
concept NamedEnum = std::is_enum_v<Enum> && requires(Enum value) { named_values(value); };

// Empty for what is no value of the table.
template <NamedEnum Enum>
constexpr std::string_view name_of(Enum value) {
  for (const NamedValue<Enum>& entry : named_values(value))
    if (entry.value == value) return entry.name;
  return {};
}

// Nothing for a name that the table lacks.
template <NamedEnum Enum>
constexpr std::optional<Enum> value_named(std::string_view name) {
  for (const NamedValue<Enum>& entry : named_values(Enum()))
    if (entry.name == name) return entry.value;
  return std::nullopt;
}

// All, in the table's order.
template <NamedEnum Enum>
std::vector<std::string> names_of() {
  std::vector<std::string> names;
  for (const NamedValue<Enum>& entry : named_values(Enum())) names.emplace_back(entry.name);
  return names;
}

}  // namespace causeway

template <causeway::NamedEnum Enum>
struct fmt::formatter<Enum> : fmt::formatter<std::string_view> {
  auto format(Enum value, fmt::format_context& context) const {
    return fmt::formatter<std::string_view>::format(causeway::name_of(value), context);
  }
};
