#include "causeway/train/recipe/recipe_field.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <charconv>
#include <cmath>

#include "causeway/base/byte_size.h"
#include "causeway/base/error.h"

namespace causeway::train {
namespace {

template <class Number>
std::optional<Number> parse_number(const std::string& text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "1000", or "1e3" as people write it: a number with an exponent that has no fraction.
std::optional<int64_t> parse_integer(const std::string& text) {
  if (const auto integer = parse_number<int64_t>(text)) return integer;
  if (text.find_first_of("eE") == std::string::npos) return std::nullopt;
  constexpr double kMostExact = 9007199254740992;  // 2^53: from there on not every integer is a double
  const auto value = parse_number<double>(text);
  if (!value || !(std::abs(*value) <= kMostExact) || *value != std::trunc(*value)) return std::nullopt;
  return static_cast<int64_t>(*value);
}

}  // namespace

Field field(std::string key, int64_t& value, std::string meaning) {
  return {std::move(key), std::move(meaning), "an integer",
          [&value](const std::string& text) {
            const auto parsed = parse_integer(text);
            if (parsed) value = *parsed;
            return parsed.has_value();
          },
          [&value] { return fmt::format("{}", value); }};
}

Field bytes_field(std::string key, int64_t& value, std::string meaning) {
  return {std::move(key), std::move(meaning), "a number of bytes",
          [&value](const std::string& text) {
            value = text == "0" ? 0 : parse_byte_size(text, {});
            return true;
          },
          [&value] { return value == 0 ? "0" : exact_bytes(value); }};
}

Field field(std::string key, double& value, std::string meaning) {
  return {std::move(key), std::move(meaning), "a number",
          [&value](const std::string& text) {
            const auto parsed = parse_number<double>(text);
            if (!parsed || !std::isfinite(*parsed)) return false;
            value = *parsed;
            return true;
          },
          [&value] { return fmt::format("{}", value); }};
}

Field field(std::string key, bool& value, std::string meaning) {
  return {std::move(key),
          std::move(meaning),
          "true or false",
          [&value](const std::string& text) {
            if (text != "true" && text != "false") return false;
            value = text == "true";
            return true;
          },
          [&value] { return value ? "true" : "false"; },
          {"true", "false"}};
}

Field field(std::string key, std::string& value, std::string meaning) {
  return {std::move(key), std::move(meaning), "text",
          [&value](const std::string& text) {
            value = text;
            return true;
          },
          [&value] {
            YAML::Emitter out;
            out << YAML::DoubleQuoted << value;
            return std::string(out.c_str());
          }};
}

Field choice(std::string key, std::string meaning, std::vector<std::string> choices, NameOf what,
             std::function<bool(const std::string&)> set, std::function<std::string_view()> get) {
  return {std::move(key),
          std::move(meaning),
          "text",
          [=](const std::string& text) {
            if (set(text)) return true;
            throw Error(ErrorKind::kInvalidArgument,
                        fmt::format("'{}' is not one of {}", text, fmt::join(choices, ", ")), {},
                        name_hint(what, text, choices));
          },
          [=] { return fmt::format("\"{}\"", get()); },
          choices};
}

}  // namespace causeway::train
