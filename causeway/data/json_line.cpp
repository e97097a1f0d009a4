#include "causeway/data/json_line.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/base/json_document.h"
#include "causeway/base/printable.h"

namespace causeway::data {
namespace {

constexpr size_t kEscapeBytes = 6;  // of "\ud800"

// What "\uXXXX" at `position` says; nothing where none is there.
std::optional<uint32_t> escaped_unit(std::string_view text, size_t position) {
  if (text.size() - position < kEscapeBytes || text[position] != '\\' || text[position + 1] != 'u') return std::nullopt;
  uint32_t unit = 0;
  for (const char c : text.substr(position + 2, 4)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return std::nullopt;
    unit = unit * 16 + static_cast<uint32_t>(digit);
  }
  return unit;
}

bool is_high(uint32_t unit) { return unit >= 0xD800 && unit < 0xDC00; }
bool is_low(uint32_t unit) { return unit >= 0xDC00 && unit < 0xE000; }

struct Replacement {
  std::string text;  // as long as what it replaces: columns stay
  bool has_surrogates = false;
};

// The text with what JSON does not have replaced: a number for one that is none, `half_instead` (an escaped character)
// for half a pair. Nothing where there is neither.
std::optional<Replacement> replace_what_python_writes(std::string_view text,
                                                      std::string_view half_instead = "\\ufffd") {
  struct Number {
    std::string_view name, instead;
  };
  constexpr Number kNumbers[] = {{"NaN", "0.0"}, {"Infinity", "10000000"}, {"-Infinity", "-10000000"}};
  constexpr std::string_view kBefore = ":,[ \t\r\n", kAfter = ",]} \t\r\n";
  std::optional<Replacement> replaced;
  const auto put = [&](size_t position, std::string_view instead) {
    if (!replaced) replaced = Replacement{std::string(text)};
    replaced->text.replace(position, instead.size(), instead);
  };
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') {
      in_string = !in_string;
    } else if (in_string && text[i] == '\\') {
      const std::optional<uint32_t> unit = escaped_unit(text, i);
      const std::optional<uint32_t> next = unit && is_high(*unit) && text.size() - i > kEscapeBytes
                                               ? escaped_unit(text, i + kEscapeBytes)
                                               : std::nullopt;
      if (next && is_low(*next)) {
        i += 2 * kEscapeBytes - 1;
      } else if (unit) {
        if (is_high(*unit) || is_low(*unit)) {
          put(i, half_instead);
          replaced->has_surrogates = true;
        }
        i += kEscapeBytes - 1;
      } else {
        ++i;
      }
    } else if (!in_string && (text[i] == 'N' || text[i] == 'I' || text[i] == '-')) {
      if (i > 0 && kBefore.find(text[i - 1]) == std::string_view::npos) continue;
      for (const auto& [name, instead] : kNumbers) {
        const size_t end = i + name.size();
        if (text.substr(i, name.size()) != name) continue;
        if (end < text.size() && kAfter.find(text[end]) == std::string_view::npos) continue;
        put(i, instead);
      }
    }
  }
  return replaced;
}

// At most so many keys of a line are listed.
constexpr size_t kMostNames = 20;

std::string hint_of_fixed_key(const std::string& key) {
  return fmt::format("Each line must have the text under \"{}\".", key);
}

std::string hint_of_keys(const std::string& key, const nlohmann::json& object, std::string_view key_option) {
  if (key_option.empty()) return hint_of_fixed_key(key);
  std::vector<std::string> keys;
  for (const auto& [name, value] : object.items()) keys.push_back(name);
  // Which have no text of that kind at all.
  for (const char* of_chat : {"messages", "conversations", "prompt", "instruction", "chosen"})
    if (object.contains(of_chat))
      return fmt::format(
          "It has \"{}\": conversations, pairs and prompts are prepared with --chat; or say with {} KEY "
          "what holds the text.",
          of_chat, key_option);
  const std::string nearest = nearest_name(key, keys);
  if (!nearest.empty()) return fmt::format("Did you mean {} {}?", key_option, printable(nearest));
  if (keys.empty()) return "The object is empty.";
  std::string names;
  for (size_t i = 0; i < std::min(keys.size(), kMostNames); ++i)
    names += fmt::format("{}\"{}\"", i == 0 ? "" : ", ", printable(keys[i]));
  return fmt::format("It has: {}{}. Say with {} KEY which of them holds the text.", names,
                     keys.size() > kMostNames ? ", ..." : "", key_option);
}

JsonSubject subject_of_line(const JsonLine& line, const std::string& where) {
  if (line.sample == 0)
    return {.name = "the line", .where = where, .hint = "Each line must be one JSON object.", .is_one_line = true};
  return {.name = "the sample",
          .where = where,
          .hint = "Each sample of the list must be a JSON object.",
          .first_line = line.number,
          .first_column = line.column};
}

// What `parse` makes of the text, or else of the text with what Python writes replaced; and whether halves of surrogate
// pairs were.
template <typename Json>
std::pair<Json, bool> parse_with_replacements(std::string_view text, const JsonSubject& subject,
                                              Json (*parse)(std::string_view, const JsonSubject&)) {
  try {
    return {parse(text, subject), false};
  } catch (const Error&) {
    const std::optional<Replacement> replaced = replace_what_python_writes(text);
    if (!replaced) throw;
    return {parse(replaced->text, subject), replaced->has_surrogates};
  }
}

}  // namespace

std::string JsonLine::place(const std::string& input) const {
  return sample == 0 ? fmt::format("{}, line {}", input, number)
                     : fmt::format("{}, sample {}, line {}", input, sample, number);
}

JsonRecord parse_json_record(const JsonLine& line, const std::string& input) {
  const JsonSubject subject = subject_of_line(line, line.place(input));
  auto [object, replaced] = parse_with_replacements(line.bytes, subject, parse_ordered_json);
  if (object.is_object()) return {std::move(object), replaced};
  throw Error(ErrorKind::kCorrupt, fmt::format("{} is a JSON {}, not an object", subject.name, object.type_name()),
              subject.where, subject.hint);
}

JsonText parse_json_line(const JsonLine& line, const std::string& key, const std::string& input,
                         std::string_view key_option) {
  const std::string where = line.place(input);
  const JsonSubject subject = subject_of_line(line, where);
  auto [json, has_surrogates] = parse_with_replacements(line.bytes, subject, parse_json);
  if (!json.is_object()) {
    throw Error(ErrorKind::kCorrupt, fmt::format("{} is a JSON {}, not an object", subject.name, json.type_name()),
                where,
                fmt::format("Each {} must be one JSON object with the text under \"{}\".",
                            line.sample == 0 ? "line" : "sample", key));
  }
  const auto found = json.find(key);
  if (found == json.end()) {
    throw Error(ErrorKind::kInvalidArgument, fmt::format("the object has no text under \"{}\"", key), where,
                hint_of_keys(key, json, key_option));
  }
  if (found->is_null()) return {};
  if (!found->is_string()) {
    throw Error(ErrorKind::kInvalidArgument, fmt::format("\"{}\" is a JSON {}, not a string", key, found->type_name()),
                where,
                key_option.empty() ? hint_of_fixed_key(key)
                                   : fmt::format("Say with {} KEY which key holds the text.", key_option));
  }
  JsonText result{std::move(found->get_ref<std::string&>())};
  if (!has_surrogates) return result;
  // They may be in another value: then another character in their place changes nothing here.
  const nlohmann::json other = parse_json(replace_what_python_writes(line.bytes, "\\ufffe")->text, subject);
  const auto same_key = other.find(key);
  result.replaced_surrogates = same_key == other.end() || *same_key != *result.text;
  return result;
}

bool is_json(std::string_view text) {
  if (nlohmann::json::accept(text)) return true;
  const std::optional<Replacement> replaced = replace_what_python_writes(text);
  return replaced && nlohmann::json::accept(replaced->text);
}

}  // namespace causeway::data
