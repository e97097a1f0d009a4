// A structure's list of its own fields, written once for whatever has to treat each of them: comparison, hash, text,
// parser.
//
//   struct Depths {
//     int levels = 1;
//     bool wide = false;
//     static constexpr auto fields() {
//       return std::tuple{ListedField{"levels", &Depths::levels}, ListedField{"wide", &Depths::wide}};
//     }
//   };
//   static_assert(lists_every_field<Depths>);
//
// The assertion fails to compile when a field is added to the structure, an aggregate without base classes and arrays,
// and not to its list.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace causeway {

template <class Struct, class Type>
struct ListedField {
  std::string_view name;
  Type Struct::* member;
};

template <class Struct>
concept ListsFields = requires { Struct::fields(); };

// Calls `visit` with every ListedField, in order.
template <ListsFields Struct, class Visit>
constexpr void for_each_field(Visit&& visit) {
  std::apply([&](const auto&... field) { (visit(field), ...); }, Struct::fields());
}

// Whether `holds` is true of every ListedField; asks no further than the first of which it is not.
template <ListsFields Struct, class Predicate>
constexpr bool all_fields(Predicate&& holds) {
  return std::apply([&](const auto&... field) { return (holds(field) && ...); }, Struct::fields());
}

namespace fields_detail {

struct AnyValue {
  template <class Type>
  operator Type() const;  // never defined: only whether an initializer would be well formed is asked
};

template <class Struct, size_t... kIndices>
constexpr bool takes_initializers(std::index_sequence<kIndices...>) {
  return requires { Struct{(static_cast<void>(kIndices), AnyValue())...}; };
}

template <class Struct>
constexpr size_t kListed = std::tuple_size_v<decltype(Struct::fields())>;

}  // namespace fields_detail

// The list is as long as the structure.
template <class Struct>
constexpr bool lists_every_field =
    fields_detail::takes_initializers<Struct>(std::make_index_sequence<fields_detail::kListed<Struct>>()) &&
    !fields_detail::takes_initializers<Struct>(std::make_index_sequence<fields_detail::kListed<Struct> + 1>());

// "levels=2, wide=false": equal for equal structures and only for those. Enumerators are numbers; a structure in a
// field stands in braces.
template <ListsFields Struct>
std::string fields_text(const Struct& object) {
  static_assert(lists_every_field<Struct>);
  std::string text;
  for_each_field<Struct>([&](const auto& field) {
    const auto& value = object.*field.member;
    using Type = std::remove_cvref_t<decltype(value)>;
    text += fmt::format("{}{}=", text.empty() ? "" : ", ", field.name);
    if constexpr (ListsFields<Type>) {
      text += "{" + fields_text(value) + "}";
    } else if constexpr (std::is_enum_v<Type>) {
      text += fmt::format("{}", static_cast<std::underlying_type_t<Type>>(value));
    } else {
      static_assert(std::is_arithmetic_v<Type>, "text of such a field would have to be escaped");
      text += fmt::format("{}", value);
    }
  });
  return text;
}

}  // namespace causeway
