// What operators, subscripts and loops do with values.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "causeway/formats/chat_template/jinja_value.h"

namespace causeway::formats {

// Limits of single values, so that no template takes all memory.
inline constexpr size_t kMostItems = 1'000'000;
inline constexpr size_t kMostTextBytes = size_t{64} << 20;
void check_item_count(size_t count);
void check_text_size(size_t bytes);

// left symbol right for + - * / // % **, and +value, -value.
JinjaValue apply_binary(std::string_view symbol, const JinjaValue& left, const JinjaValue& right);
JinjaValue apply_unary(std::string_view symbol, const JinjaValue& value);
// value in container.
bool is_contained(const JinjaValue& value, const JinjaValue& container);

// value.name: an attribute or method of the type, otherwise the item of that name, otherwise undefined; and value[key]
// the other way around.
JinjaValue get_attribute(const JinjaValue& value, std::string_view name);
JinjaValue get_item(const JinjaValue& value, const JinjaValue& key);
JinjaValue get_slice(const JinjaValue& value, const JinjaValue& start, const JinjaValue& stop, const JinjaValue& step);

// len(value). Throws Error for what has no length.
size_t length_of(const JinjaValue& value);

// What `for` goes through, item by item; the value must outlive it. Throws Error for what is not iterable.
class JinjaItems {
 public:
  explicit JinjaItems(const JinjaValue& iterable);

  std::optional<JinjaValue> next();
  // Where it is known without going through them.
  std::optional<size_t> length() const;

 private:
  const JinjaValue iterable_;
  size_t position_ = 0;
};
JinjaValues items_of(const JinjaValue& iterable);
bool is_iterable(const JinjaValue& value);

// A string as Markup takes it into itself: &, <, >, ' and " escaped.
MarkedText escaped_text(const MarkedText& text);

}  // namespace causeway::formats
