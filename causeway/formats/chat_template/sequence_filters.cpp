// Filters of lists: map, select, sort, join and their kind.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <list>
#include <utility>

#include "causeway/formats/chat_template/jinja_filters.h"
#include "causeway/formats/chat_template/jinja_methods.h"
#include "causeway/formats/chat_template/jinja_operators.h"
#include "causeway/formats/chat_template/jinja_tests.h"
#include "causeway/formats/chat_template/python_format.h"

namespace causeway::formats {
namespace {

// The parts of "message.content.0": names, and numbers for what is all digits.
JinjaValues attribute_parts(const JinjaValue& attribute) {
  if (attribute.is(JinjaKind::kNone)) return {};
  if (!attribute.is(JinjaKind::kString)) return {attribute};
  JinjaValues parts;
  const std::string& path = attribute.bytes();
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    const bool is_number =
        !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == std::string::npos;
    parts.push_back(is_number ? JinjaValue::integer(std::stoll(part)) : JinjaValue::string(part, TextMark{}));
    begin = end + 1;
  }
  return parts;
}

JinjaValue attribute_of(JinjaValue item, const JinjaValues& parts, const JinjaValue* otherwise = nullptr) {
  for (const JinjaValue& part : parts) {
    item = get_item(item, part);
    if (otherwise != nullptr && item.is(JinjaKind::kUndefined)) item = *otherwise;
  }
  return item;
}

JinjaValue without_case(const JinjaValue& value) {
  return value.is(JinjaKind::kString) ? JinjaValue::string(changed_case(value.text(), "lower")) : value;
}

// Sorted by keys, of which there is one for each item; equal ones keep their order.
JinjaValues sorted_by(JinjaValues items, const JinjaValues& keys, bool reverse) {
  // A list: its sort is stable and bears any comparison.
  std::list<size_t> order;
  for (size_t i = 0; i < items.size(); ++i) order.push_back(i);
  order.sort([&](size_t a, size_t b) {
    return reverse ? compare_values(keys[b], keys[a], "<") < 0 : compare_values(keys[a], keys[b], "<") < 0;
  });
  JinjaValues sorted;
  for (const size_t i : order) sorted.push_back(std::move(items[i]));
  return sorted;
}

JinjaValue filter_sort(const JinjaValue& value, std::string_view, const JinjaCallArguments& call) {
  const JinjaBoundArguments arguments("sort", call, {"reverse", "case_sensitive", "attribute"});
  const bool with_case = arguments.flag(1, false);
  std::vector<JinjaValues> paths;
  if (arguments.is_set(2) && arguments.value(2).is(JinjaKind::kString)) {
    const std::string& names = arguments.value(2).bytes();
    for (size_t begin = 0; begin <= names.size();) {
      const size_t end = std::min(names.find(',', begin), names.size());
      paths.push_back(attribute_parts(JinjaValue::string(names.substr(begin, end - begin), TextMark{})));
      begin = end + 1;
    }
  } else {
    paths.push_back(attribute_parts(arguments.has(2) ? arguments.value(2) : JinjaValue::none()));
  }
  JinjaValues items = items_of(value), keys;
  for (const JinjaValue& item : items) {
    JinjaValues key;
    for (const JinjaValues& path : paths) {
      const JinjaValue part = attribute_of(item, path);
      key.push_back(with_case ? part : without_case(part));
    }
    keys.push_back(JinjaValue::list(std::move(key)));
  }
  return JinjaValue::list(sorted_by(std::move(items), keys, arguments.flag(0, false)), value.mark());
}

JinjaValue filter_dictsort(const JinjaValue& value, std::string_view, const JinjaCallArguments& call) {
  const JinjaBoundArguments arguments("dictsort", call, {"case_sensitive", "by", "reverse"});
  if (value.is(JinjaKind::kUndefined)) throw_undefined(value);
  if (!value.is(JinjaKind::kDict))
    throw_template_error(fmt::format("'{}' object has no attribute 'items'", type_name(value)));
  const std::string by = arguments.has(1) ? arguments.text(1).bytes() : "key";
  if (by != "key" && by != "value") throw_template_error("You can only sort by either \"key\" or \"value\"");
  JinjaValues items, keys;
  for (const auto& [key, entry] : value.as<JinjaDict>().entries()) {
    items.push_back(JinjaValue::tuple({key, entry}, value.mark()));
    const JinjaValue& sorted = by == "key" ? key : entry;
    keys.push_back(arguments.flag(0, false) ? sorted : without_case(sorted));
  }
  return JinjaValue::list(sorted_by(std::move(items), keys, arguments.flag(2, false)), value.mark());
}

JinjaValue filter_unique(const JinjaValue& value, std::string_view, const JinjaCallArguments& call) {
  const JinjaBoundArguments arguments("unique", call, {"case_sensitive", "attribute"});
  const JinjaValues path = attribute_parts(arguments.has(1) ? arguments.value(1) : JinjaValue::none());
  JinjaDict seen;
  JinjaValues items;
  JinjaItems source(value);
  while (const std::optional<JinjaValue> item = source.next()) {
    JinjaValue key = attribute_of(*item, path);
    if (!arguments.flag(0, false)) key = without_case(key);
    if (seen.find(key) != nullptr) continue;
    seen.set(std::move(key), JinjaValue::none());
    items.push_back(*item);
  }
  return JinjaValue::iterator(std::move(items), value.mark());
}

JinjaValue filter_extreme(const JinjaValue& value, std::string_view name, const JinjaCallArguments& call) {
  const JinjaBoundArguments arguments(name, call, {"case_sensitive", "attribute"});
  const JinjaValues path = attribute_parts(arguments.has(1) ? arguments.value(1) : JinjaValue::none());
  std::optional<JinjaValue> best, best_key;
  JinjaItems source(value);
  while (const std::optional<JinjaValue> item = source.next()) {
    JinjaValue key = attribute_of(*item, path);
    if (!arguments.flag(0, false)) key = without_case(key);
    const bool is_better =
        !best || (name == "min" ? compare_values(key, *best_key, "<") < 0 : compare_values(key, *best_key, ">") > 0);
    if (!is_better) continue;
    best = item;
    best_key = std::move(key);
  }
  return best ? *best : JinjaValue::undefined("No aggregated item, sequence was empty.");
}

JinjaValue filter_join(const JinjaValue& value, std::string_view, const JinjaCallArguments& call) {
  const JinjaBoundArguments arguments("join", call, {"d", "attribute"});
  const MarkedText separator = arguments.has(0) ? python_str(arguments.value(0)) : MarkedText();
  const JinjaValues path = attribute_parts(arguments.has(1) ? arguments.value(1) : JinjaValue::none());
  MarkedText text;
  bool is_first = true;
  JinjaItems source(value);
  while (const std::optional<JinjaValue> item = source.next()) {
    if (!std::exchange(is_first, false)) text.append(separator);
    text.append(python_str(attribute_of(*item, path)));
    check_text_size(text.size());
  }
  return JinjaValue::string(std::move(text));
}

JinjaValue filter_map(const JinjaValue& value, std::string_view, const JinjaCallArguments& call) {
  JinjaValues items;
  if (is_true(value)) {
    const bool by_attribute = call.positional.empty() && !call.named.empty();
    JinjaCallArguments rest;
    std::string name;
    JinjaValues path;
    std::optional<JinjaValue> otherwise;
    if (by_attribute) {
      const JinjaBoundArguments arguments("map", call, {"attribute", "default"}, 1);
      path = attribute_parts(arguments.value(0));
      if (arguments.is_set(1)) otherwise = arguments.value(1);
    } else {
      if (call.positional.empty()) throw_template_error("map requires a filter argument");
      name = python_str(call.positional[0]).bytes();
      rest = {.positional = {call.positional.begin() + 1, call.positional.end()}, .named = call.named};
    }
    JinjaItems source(value);
    while (const std::optional<JinjaValue> item = source.next()) {
      items.push_back(by_attribute ? attribute_of(*item, path, otherwise ? &*otherwise : nullptr)
                                   : apply_filter(name, *item, rest));
      check_item_count(items.size());
    }
  }
  return JinjaValue::iterator(std::move(items), value.mark());
}

// select, reject, selectattr and rejectattr.
JinjaValue filter_select(const JinjaValue& value, std::string_view name, const JinjaCallArguments& call) {
  const bool by_attribute = name.ends_with("attr");
  const bool keeps = name.starts_with("select");
  const size_t test_at = by_attribute ? 1 : 0;
  JinjaValues items;
  if (is_true(value)) {
    if (by_attribute && call.positional.empty()) throw_template_error("Missing parameter for attribute name");
    const JinjaValues path = by_attribute ? attribute_parts(call.positional[0]) : JinjaValues();
    const bool has_test = call.positional.size() > test_at;
    JinjaCallArguments rest;
    if (has_test)
      rest = {.positional = {call.positional.begin() + static_cast<ptrdiff_t>(test_at) + 1, call.positional.end()},
              .named = call.named};
    JinjaItems source(value);
    while (const std::optional<JinjaValue> item = source.next()) {
      const JinjaValue tested = attribute_of(*item, path);
      const bool holds =
          has_test ? apply_test(python_str(call.positional[test_at]).bytes(), tested, rest) : is_true(tested);
      if (holds == keeps) items.push_back(*item);
    }
  }
  return JinjaValue::iterator(std::move(items), value.mark());
}

JinjaValue filter_first(const JinjaValue& value, std::string_view, const JinjaCallArguments& call) {
  const JinjaBoundArguments none("first", call, {});
  const std::optional<JinjaValue> item = JinjaItems(value).next();
  return item ? *item : JinjaValue::undefined("No first item, sequence was empty.");
}

JinjaValue filter_last(const JinjaValue& value, std::string_view, const JinjaCallArguments& call) {
  const JinjaBoundArguments none("last", call, {});
  if (value.is(JinjaKind::kIterator)) throw_template_error("'generator' object is not reversible");
  const JinjaValues items = items_of(value);
  return items.empty() ? JinjaValue::undefined("No last item, sequence was empty.") : items.back();
}

JinjaValue filter_reverse(const JinjaValue& value, std::string_view, const JinjaCallArguments& call) {
  const JinjaBoundArguments none("reverse", call, {});
  if (!is_iterable(value)) throw_template_error("argument must be iterable");
  JinjaValues items = items_of(value);
  std::ranges::reverse(items);
  if (!value.is(JinjaKind::kString)) return JinjaValue::iterator(std::move(items), value.mark());
  MarkedText text;
  for (const JinjaValue& item : items) text.append(item.text());
  return JinjaValue::string(std::move(text), value.is_markup());
}

JinjaValue filter_items(const JinjaValue& value, std::string_view, const JinjaCallArguments& call) {
  const JinjaBoundArguments none("items", call, {});
  JinjaValues pairs;
  if (value.is(JinjaKind::kUndefined)) return JinjaValue::iterator({});
  if (!value.is(JinjaKind::kDict)) throw_template_error("Can only get item pairs from a mapping.");
  for (const auto& [key, entry] : value.as<JinjaDict>().entries())
    pairs.push_back(JinjaValue::tuple({key, entry}, value.mark()));
  return JinjaValue::iterator(std::move(pairs), value.mark());
}

JinjaValue filter_list(const JinjaValue& value, std::string_view, const JinjaCallArguments& call) {
  const JinjaBoundArguments none("list", call, {});
  return JinjaValue::list(items_of(value), value.mark());
}

JinjaValue filter_length(const JinjaValue& value, std::string_view name, const JinjaCallArguments& call) {
  const JinjaBoundArguments none(name, call, {});
  return JinjaValue::integer(static_cast<int64_t>(length_of(value)));
}

JinjaValue filter_sum(const JinjaValue& value, std::string_view, const JinjaCallArguments& call) {
  const JinjaBoundArguments arguments("sum", call, {"attribute", "start"});
  const JinjaValues path = attribute_parts(arguments.has(0) ? arguments.value(0) : JinjaValue::none());
  JinjaValue total = arguments.has(1) ? arguments.value(1) : JinjaValue::integer(0);
  if (total.is(JinjaKind::kString)) throw_template_error("sum() can't sum strings [use ''.join(seq) instead]");
  JinjaItems source(value);
  while (const std::optional<JinjaValue> item = source.next())
    total = apply_binary("+", total, attribute_of(*item, path));
  return total;
}

JinjaValue filter_batch(const JinjaValue& value, std::string_view, const JinjaCallArguments& call) {
  const JinjaBoundArguments arguments("batch", call, {"linecount", "fill_with"}, 1);
  const int64_t count = arguments.integer(0, 1);
  JinjaValues batches, batch;
  const auto flush = [&] { batches.push_back(JinjaValue::list(std::exchange(batch, {}), value.mark())); };
  JinjaItems source(value);
  while (const std::optional<JinjaValue> item = source.next()) {
    if (static_cast<int64_t>(batch.size()) == count) flush();
    batch.push_back(*item);
  }
  if (!batch.empty()) {
    if (arguments.is_set(1) && count > 0) {
      check_item_count(static_cast<size_t>(count));
      while (static_cast<int64_t>(batch.size()) < count) batch.push_back(arguments.value(1));
    }
    flush();
  }
  return JinjaValue::iterator(std::move(batches), value.mark());
}

struct SequenceFilter {
  std::string_view name;
  JinjaValue (*apply)(const JinjaValue&, std::string_view, const JinjaCallArguments&);
};
constexpr SequenceFilter kSequenceFilters[] = {
    {"sort", filter_sort},     {"dictsort", filter_dictsort}, {"unique", filter_unique},     {"min", filter_extreme},
    {"max", filter_extreme},   {"join", filter_join},         {"map", filter_map},           {"select", filter_select},
    {"reject", filter_select}, {"selectattr", filter_select}, {"rejectattr", filter_select}, {"first", filter_first},
    {"last", filter_last},     {"reverse", filter_reverse},   {"items", filter_items},       {"list", filter_list},
    {"length", filter_length}, {"count", filter_length},      {"sum", filter_sum},           {"batch", filter_batch},
};

const SequenceFilter* find_sequence_filter(std::string_view name) {
  const auto* found = std::ranges::find(kSequenceFilters, name, &SequenceFilter::name);
  return found == std::end(kSequenceFilters) ? nullptr : found;
}

}  // namespace

bool is_sequence_filter(std::string_view name) { return find_sequence_filter(name) != nullptr; }

std::optional<JinjaValue> apply_sequence_filter(std::string_view name, const JinjaValue& value,
                                                const JinjaCallArguments& call) {
  const SequenceFilter* filter = find_sequence_filter(name);
  return filter == nullptr ? std::nullopt : std::optional(filter->apply(value, name, call));
}

}  // namespace causeway::formats
