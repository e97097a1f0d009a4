// Python's methods of str. Every result keeps where its characters came from.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/base/utf8.h"
#include "causeway/formats/chat_template/jinja_methods.h"
#include "causeway/formats/chat_template/jinja_operators.h"
#include "causeway/formats/chat_template/python_format.h"
#include "causeway/formats/chat_template/python_text.h"

namespace causeway::formats {
namespace {

JinjaValue part_of(const JinjaValue& string, size_t begin, size_t end) {
  return JinjaValue::string(string.text().part(begin, end), string.is_markup()).with_mark(string.mark());
}

JinjaValue method_strip(const JinjaValue& string, std::string_view name, const JinjaCallArguments& call) {
  const JinjaBoundArguments arguments(name, call, {"chars"});
  const std::string characters = arguments.is_set(0) ? arguments.text(0).bytes() : "";
  if (arguments.is_set(0) && characters.empty()) return string;
  MarkedText text = stripped_text(string.text(), characters, name != "rstrip", name != "lstrip");
  return JinjaValue::string(std::move(text), string.is_markup()).with_mark(string.mark());
}

// Pieces between white space: at most `most` splits where that is not negative, from the end where `from_end`.
JinjaValues split_at_spaces(const JinjaValue& string, int64_t most, bool from_end) {
  const std::string& bytes = string.bytes();
  std::vector<std::pair<size_t, size_t>> words;
  for (size_t at = skip_python_spaces(bytes, 0); at < bytes.size();) {
    const size_t begin = at;
    while (at < bytes.size()) {
      const Utf8Character character = decode_utf8(bytes, at);
      if (is_python_space(character.code_point)) break;
      at += character.size;
    }
    words.emplace_back(begin, at);
    check_item_count(words.size());
    at = skip_python_spaces(bytes, at);
  }
  if (most >= 0 && words.size() > static_cast<size_t>(most)) {
    // What is not split is one piece, with the spaces at its far end.
    if (from_end) {
      words.erase(words.begin(), words.end() - static_cast<ptrdiff_t>(most) - 1);
      words.front().first = 0;
    } else {
      words.resize(static_cast<size_t>(most) + 1);
      words.back().second = bytes.size();
    }
  }
  JinjaValues pieces;
  for (const auto& [begin, end] : words) pieces.push_back(part_of(string, begin, end));
  return pieces;
}

JinjaValues split_at_text(const JinjaValue& string, const std::string& separator, int64_t most, bool from_end) {
  if (separator.empty()) throw_template_error("empty separator");
  const std::string& bytes = string.bytes();
  std::vector<size_t> places;
  const auto is_full = [&] { return most >= 0 && places.size() >= static_cast<size_t>(most); };
  if (from_end) {
    for (size_t end = bytes.size(); !is_full() && end >= separator.size();) {
      const size_t place = bytes.rfind(separator, end - separator.size());
      if (place == std::string::npos) break;
      places.push_back(place);
      check_item_count(places.size());
      end = place;
    }
    std::ranges::reverse(places);
  } else {
    for (size_t at = 0; !is_full();) {
      const size_t place = bytes.find(separator, at);
      if (place == std::string::npos) break;
      places.push_back(place);
      check_item_count(places.size());
      at = place + separator.size();
    }
  }
  JinjaValues pieces;
  size_t begin = 0;
  for (const size_t place : places) {
    pieces.push_back(part_of(string, begin, place));
    begin = place + separator.size();
  }
  pieces.push_back(part_of(string, begin, bytes.size()));
  return pieces;
}

JinjaValue method_split(const JinjaValue& string, std::string_view name, const JinjaCallArguments& call) {
  const JinjaBoundArguments arguments(name, call, {"sep", "maxsplit"});
  const int64_t most = arguments.integer(1, -1);
  const bool from_end = name == "rsplit";
  return JinjaValue::list(arguments.is_set(0) ? split_at_text(string, arguments.text(0).bytes(), most, from_end)
                                              : split_at_spaces(string, most, from_end),
                          string.mark());
}

JinjaValue method_partition(const JinjaValue& string, std::string_view name, const JinjaCallArguments& call) {
  const JinjaBoundArguments arguments(name, call, {"sep"}, 1);
  const std::string& separator = arguments.text(0).bytes();
  if (separator.empty()) throw_template_error("empty separator");
  const std::string& bytes = string.bytes();
  const size_t place = name == "partition" ? bytes.find(separator) : bytes.rfind(separator);
  const JinjaValue nothing = part_of(string, 0, 0), all = part_of(string, 0, bytes.size());
  if (place == std::string::npos)
    return JinjaValue::tuple(
        name == "partition" ? JinjaValues{all, nothing, nothing} : JinjaValues{nothing, nothing, all}, string.mark());
  return JinjaValue::tuple({part_of(string, 0, place), part_of(string, place, place + separator.size()),
                            part_of(string, place + separator.size(), bytes.size())},
                           string.mark());
}

// The bytes of the part [start, stop) in characters that methods of searching take.
std::optional<std::pair<size_t, size_t>> searched_part(const std::string& bytes, const JinjaBoundArguments& arguments) {
  if (!arguments.is_set(1) && !arguments.is_set(2)) return std::pair<size_t, size_t>{0, bytes.size()};
  const auto count = static_cast<int64_t>(character_count(bytes));
  const auto bound = [&](size_t index, int64_t otherwise) {
    if (!arguments.is_set(index)) return otherwise;
    const int64_t given = arguments.integer(index, 0);
    return given < 0 ? std::max<int64_t>(given + count, 0) : given;
  };
  const int64_t start = bound(1, 0), stop = std::min(bound(2, count), count);
  if (start > stop) return std::nullopt;
  return std::pair{character_offset(bytes, static_cast<size_t>(start)),
                   character_offset(bytes, static_cast<size_t>(stop))};
}

JinjaValue method_find(const JinjaValue& string, std::string_view name, const JinjaCallArguments& call) {
  const JinjaBoundArguments arguments(name, call, {"sub", "start", "end"}, 1);
  const std::string& bytes = string.bytes();
  size_t place = std::string::npos;
  if (const auto part = searched_part(bytes, arguments)) {
    const std::string_view searched = std::string_view(bytes).substr(part->first, part->second - part->first);
    const std::string& wanted = arguments.text(0).bytes();
    const size_t found = name.starts_with('r') ? searched.rfind(wanted) : searched.find(wanted);
    if (found != std::string_view::npos) place = part->first + found;
  }
  if (place != std::string::npos)
    return JinjaValue::integer(static_cast<int64_t>(character_count(std::string_view(bytes).substr(0, place))));
  if (name.ends_with("index")) throw_template_error("substring not found");
  return JinjaValue::integer(-1);
}

JinjaValue method_count(const JinjaValue& string, std::string_view name, const JinjaCallArguments& call) {
  const JinjaBoundArguments arguments(name, call, {"sub", "start", "end"}, 1);
  const std::string& bytes = string.bytes();
  const auto part = searched_part(bytes, arguments);
  if (!part) return JinjaValue::integer(0);
  const std::string_view searched = std::string_view(bytes).substr(part->first, part->second - part->first);
  const std::string& wanted = arguments.text(0).bytes();
  if (wanted.empty()) return JinjaValue::integer(static_cast<int64_t>(character_count(searched)) + 1);
  int64_t times = 0;
  for (size_t at = searched.find(wanted); at != std::string_view::npos; at = searched.find(wanted, at + wanted.size()))
    ++times;
  return JinjaValue::integer(times);
}

JinjaValue method_begins_or_ends(const JinjaValue& string, std::string_view name, const JinjaCallArguments& call) {
  const JinjaBoundArguments arguments(name, call, {"affix", "start", "end"}, 1);
  const JinjaValue& affix = arguments.value(0);
  const std::string& bytes = string.bytes();
  const auto part = searched_part(bytes, arguments);
  const auto holds = [&](const JinjaValue& one) {
    if (!one.is(JinjaKind::kString))
      throw_template_error(fmt::format("{} first arg must be str or a tuple of str, not {}", name, type_name(one)));
    if (!part) return false;
    const std::string_view searched = std::string_view(bytes).substr(part->first, part->second - part->first);
    return name == "startswith" ? searched.starts_with(one.bytes()) : searched.ends_with(one.bytes());
  };
  if (!affix.is(JinjaKind::kTuple)) return JinjaValue::boolean(holds(affix));
  return JinjaValue::boolean(std::ranges::any_of(affix.items(), holds));
}

JinjaValue method_replace(const JinjaValue& string, std::string_view name, const JinjaCallArguments& call) {
  const JinjaBoundArguments arguments(name, call, {"old", "new", "count"}, 2);
  const MarkedText replacement =
      string.is_markup() && !arguments.value(1).is_markup() ? escaped_text(arguments.text(1)) : arguments.text(1);
  return JinjaValue::string(replaced_text(string.text(), arguments.text(0), replacement, arguments.integer(2, -1)),
                            string.is_markup())
      .with_mark(string.mark());
}

JinjaValue method_remove_affix(const JinjaValue& string, std::string_view name, const JinjaCallArguments& call) {
  const JinjaBoundArguments arguments(name, call, {"affix"}, 1);
  const std::string& bytes = string.bytes();
  const std::string& affix = arguments.text(0).bytes();
  if (name == "removeprefix") return part_of(string, bytes.starts_with(affix) ? affix.size() : 0, bytes.size());
  return part_of(string, 0, bytes.size() - (bytes.ends_with(affix) ? affix.size() : 0));
}

JinjaValue method_join(const JinjaValue& string, std::string_view name, const JinjaCallArguments& call) {
  const JinjaBoundArguments arguments(name, call, {"iterable"}, 1);
  MarkedText result;
  bool is_first = true;
  JinjaItems items(arguments.value(0));
  while (const std::optional<JinjaValue> item = items.next()) {
    if (!item->is(JinjaKind::kString))
      throw_template_error(fmt::format("sequence item: expected str instance, {} found", type_name(*item)));
    if (!std::exchange(is_first, false)) result.append(string.text());
    result.append(string.is_markup() && !item->is_markup() ? escaped_text(item->text()) : item->text());
    check_text_size(result.size());
  }
  return JinjaValue::string(std::move(result), string.is_markup());
}

// zfill, ljust, rjust and center.
JinjaValue method_justify(const JinjaValue& string, std::string_view name, const JinjaCallArguments& call) {
  const JinjaBoundArguments arguments(name, call, {"width", "fillchar"}, 1);
  const auto size = static_cast<int64_t>(character_count(string.bytes()));
  const int64_t missing = arguments.integer(0, 0) - size;
  if (missing <= 0) return string;
  check_text_size(static_cast<size_t>(missing));
  const std::string fill = name == "zfill" ? "0" : arguments.has(1) ? arguments.text(1).bytes() : " ";
  if (character_count(fill) != 1) throw_template_error("The fill character must be exactly one character long");
  // Python puts the odd space of center() to the left where the width is odd.
  const int64_t before = name == "ljust"    ? 0
                         : name == "center" ? missing / 2 + (missing & (arguments.integer(0, 0)) & 1)
                                            : missing;
  MarkedText result;
  const bool has_sign = name == "zfill" && (string.bytes().starts_with('-') || string.bytes().starts_with('+'));
  if (has_sign) result.append(string.text(), 0, 1);
  for (int64_t i = 0; i < before; ++i) result.append(fill, TextMark{});
  result.append(string.text(), has_sign ? 1 : 0, string.text().size());
  for (int64_t i = before; i < missing; ++i) result.append(fill, TextMark{});
  return JinjaValue::string(std::move(result), string.is_markup());
}

// The methods that ask something of all characters; none holds for an empty text but isascii.
std::optional<bool> character_question(std::string_view text, std::string_view name) {
  if (name == "islower") return has_case(text, false);
  if (name == "isupper") return has_case(text, true);
  std::function<bool(uint32_t)> holds;
  const auto in_class = [](PythonClass wanted) { return [wanted](uint32_t c) { return is_python_class(c, wanted); }; };
  if (name == "isspace") holds = is_python_space;
  if (name == "isalpha") holds = in_class(PythonClass::kAlphabetic);
  if (name == "isdecimal") holds = in_class(PythonClass::kDecimal);
  if (name == "isdigit") holds = in_class(PythonClass::kDigit);
  if (name == "isnumeric") holds = in_class(PythonClass::kNumeric);
  if (name == "isascii") holds = [](uint32_t c) { return c < 0x80; };
  if (name == "isalnum")
    holds = [](uint32_t c) {
      return is_python_class(c, PythonClass::kAlphabetic) || is_python_class(c, PythonClass::kNumeric);
    };
  if (!holds) return std::nullopt;
  if (text.empty()) return name == "isascii";
  for (size_t at = 0; at < text.size();) {
    const Utf8Character character = decode_utf8(text, at);
    if (!holds(character.code_point)) return false;
    at += character.size;
  }
  return true;
}

struct StringMethod {
  std::string_view name;
  JinjaValue (*call)(const JinjaValue&, std::string_view, const JinjaCallArguments&);
};

constexpr StringMethod kStringMethods[] = {
    {"strip", method_strip},
    {"lstrip", method_strip},
    {"rstrip", method_strip},
    {"split", method_split},
    {"rsplit", method_split},
    {"partition", method_partition},
    {"rpartition", method_partition},
    {"find", method_find},
    {"rfind", method_find},
    {"index", method_find},
    {"rindex", method_find},
    {"count", method_count},
    {"startswith", method_begins_or_ends},
    {"endswith", method_begins_or_ends},
    {"replace", method_replace},
    {"removeprefix", method_remove_affix},
    {"removesuffix", method_remove_affix},
    {"join", method_join},
    {"zfill", method_justify},
    {"ljust", method_justify},
    {"rjust", method_justify},
    {"center", method_justify},
};

}  // namespace

JinjaValue call_string_method(const JinjaValue& string, std::string_view name, const JinjaCallArguments& call) {
  for (const StringMethod& method : kStringMethods)
    if (method.name == name) return method.call(string, name, call);
  if (name == "format") {
    if (string.is_markup()) throw Error(ErrorKind::kUnsupported, "the chat template formats a safe text");
    return JinjaValue::string(python_format(string.text(), call));
  }
  if (name == "splitlines") {
    const JinjaBoundArguments arguments(name, call, {"keepends"});
    return JinjaValue::list(split_lines(string.text(), arguments.flag(0, false)), string.mark());
  }
  const JinjaBoundArguments none(name, call, {});
  if (name == "upper" || name == "lower" || name == "title" || name == "capitalize" || name == "swapcase")
    return JinjaValue::string(changed_case(string.text(), name), string.is_markup()).with_mark(string.mark());
  if (const std::optional<bool> answer = character_question(string.bytes(), name)) return JinjaValue::boolean(*answer);
  throw Error(ErrorKind::kUnsupported,
              fmt::format("the chat template uses the method str.{}(), which is not supported", name));
}

MarkedText stripped_text(const MarkedText& text, std::string_view characters, bool at_begin, bool at_end) {
  const std::string_view left = python_stripped(text.bytes(), characters, at_begin, at_end);
  const auto begin = static_cast<size_t>(left.data() - text.bytes().data());
  return text.part(begin, begin + left.size());
}

MarkedText replaced_text(const MarkedText& text, const MarkedText& old, const MarkedText& replacement, int64_t count) {
  const std::string& bytes = text.bytes();
  MarkedText result;
  size_t at = 0;
  for (int64_t times = 0; count < 0 || times < count; ++times) {
    size_t place = old.empty() ? at : bytes.find(old.bytes(), at);
    if (place == std::string::npos) break;
    if (old.empty() && times > 0) {
      // Nothing stands between any two characters, and at both ends.
      if (at >= bytes.size()) break;
      place = at + decode_utf8(bytes, at).size;
    }
    result.append(text, at, place);
    result.append(replacement);
    check_text_size(result.size());
    at = place + old.size();
  }
  result.append(text, at, bytes.size());
  return result;
}

JinjaValues split_lines(const MarkedText& text, bool keep_ends) {
  const std::string& bytes = text.bytes();
  const auto is_line_end = [](uint32_t c) {
    return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
  };
  JinjaValues lines;
  for (size_t begin = 0; begin < bytes.size();) {
    size_t end = begin, next = bytes.size();
    while (end < bytes.size()) {
      const Utf8Character character = decode_utf8(bytes, end);
      if (is_line_end(character.code_point)) {
        next = end + character.size;
        if (bytes[end] == '\r' && next < bytes.size() && bytes[next] == '\n') ++next;
        break;
      }
      end += character.size;
    }
    lines.push_back(JinjaValue::string(text.part(begin, keep_ends ? next : end)));
    check_item_count(lines.size());
    begin = next;
  }
  return lines;
}

MarkedText changed_case(const MarkedText& text, std::string_view name) {
  const std::string& bytes = text.bytes();
  MarkedText result;
  bool in_word = false;
  // Sigma at a word's end, where it is lower case.
  const auto is_final_sigma = [&](size_t at, size_t end) {
    return in_word &&
           (end >= bytes.size() || !is_python_class(decode_utf8(bytes, end).code_point, PythonClass::kCased));
  };
  for (size_t at = 0; at < bytes.size();) {
    const Utf8Character character = decode_utf8(bytes, at);
    const size_t end = at + character.size;
    if (character.code_point == kInvalidCodePoint) {
      result.append(text, at, end);
      at = end;
      continue;
    }
    const uint32_t code = character.code_point;
    const bool is_cased = is_python_class(code, PythonClass::kCased);
    const auto lower = [&] {
      return code == 0x3A3 && is_final_sigma(at, end) ? std::string("\u03C2") : lower_character(code);
    };
    std::string changed;
    if (name == "upper")
      changed = upper_character(code);
    else if (name == "lower")
      changed = lower();
    else if (name == "title")
      changed = in_word ? lower() : title_character(code);
    else if (name == "capitalize")
      changed = at == 0 ? title_character(code) : lower();
    else
      changed = is_python_class(code, PythonClass::kUpper) ? lower() : upper_character(code);
    result.append(changed, text.mark_at(at));
    in_word = is_cased;
    at = end;
  }
  check_text_size(result.size());
  return result;
}

bool has_case(std::string_view text, bool upper) {
  bool any = false;
  for (size_t at = 0; at < text.size();) {
    const Utf8Character character = decode_utf8(text, at);
    if (is_python_class(character.code_point, PythonClass::kCased)) {
      if (!is_python_class(character.code_point, upper ? PythonClass::kUpper : PythonClass::kLower)) return false;
      any = true;
    }
    at += character.size;
  }
  return any;
}

}  // namespace causeway::formats
