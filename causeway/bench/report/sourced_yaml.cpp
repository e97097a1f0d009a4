#include "causeway/bench/report/sourced_yaml.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <regex>
#include <set>

#include "causeway/base/error.h"

namespace causeway::bench {
namespace {

std::string place(const std::string& file, const YAML::Node& node) {
  return fmt::format("{}:{}", file, node.Mark().line + 1);
}

}  // namespace

YamlRecord::YamlRecord(const YAML::Node& node, std::string file, const std::vector<std::string>& keys)
    : node_(node), file_(std::move(file)) {
  const std::string known = fmt::format("{}", fmt::join(keys, ", "));
  if (!node_.IsMap())
    throw Error(ErrorKind::kInvalidArgument, "a map of keys is expected here", place(file_, node_), "Keys: " + known);
  std::set<std::string> seen;
  for (const auto& entry : node_) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      const std::string nearest = nearest_name(key, keys);
      throw Error(ErrorKind::kInvalidArgument, fmt::format("unknown key '{}'", key), place(file_, entry.first),
                  nearest.empty() ? "Keys: " + known : fmt::format("Did you mean {}?", nearest));
    }
    if (!seen.insert(key).second)
      throw Error(ErrorKind::kInvalidArgument, fmt::format("'{}' is given twice", key), place(file_, entry.first),
                  "Delete one of them.");
  }
}

void YamlRecord::fail(const std::string& key, const std::string& what, const std::string& hint) const {
  const YAML::Node value = node_[key];
  throw Error(ErrorKind::kInvalidArgument, what, place(file_, value ? value : node_), hint);
}

YAML::Node YamlRecord::node(const std::string& key) const {
  const YAML::Node value = node_[key];
  if (!value || value.IsNull())
    fail(key, fmt::format("'{}' is missing", key), fmt::format("Add a line '{}: ...'.", key));
  return value;
}

std::string YamlRecord::text(const std::string& key) const {
  const YAML::Node value = node(key);
  if (!value.IsScalar() || value.Scalar().empty())
    fail(key, fmt::format("'{}' must be text", key), fmt::format("Write it as '{}: ...' on one line.", key));
  return value.Scalar();
}

std::string YamlRecord::text_or(const std::string& key, const std::string& otherwise) const {
  return node_[key] ? text(key) : otherwise;
}

double YamlRecord::positive_number(const std::string& key) const {
  const std::string written = text(key);
  double value = 0;
  const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), value);
  if (error != std::errc() || end != written.data() + written.size() || !std::isfinite(value) || value <= 0)
    fail(key, fmt::format("'{}' must be a number above 0, not '{}'", key, written),
         "Write a plain decimal number, such as 1.63, without a currency sign or unit.");
  return value;
}

std::optional<double> YamlRecord::optional_positive_number(const std::string& key) const {
  if (!node_[key]) return std::nullopt;
  return positive_number(key);
}

std::string YamlRecord::date(bool may_be_undated) const {
  const std::string written = text("date");
  static const std::regex form(R"(\d{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?)");
  if (!std::regex_match(written, form) && !(may_be_undated && written == "undated"))
    fail("date", fmt::format("'{}' is not a date", written),
         fmt::format("Write a year, a month or a day: 2025, 2025-05 or 2025-05-21{}.",
                     may_be_undated ? "; or undated, where the source gives none" : ""));
  return written;
}

std::string YamlRecord::tag() const {
  const std::vector<std::string> tags = {"primary", "secondhand", "derived"};
  const std::string written = text("tag");
  if (std::find(tags.begin(), tags.end(), written) == tags.end()) {
    const std::string nearest = nearest_name(written, tags);
    fail("tag", fmt::format("'{}' is not one of {}", written, fmt::join(tags, ", ")),
         nearest.empty() ? "primary: read at its source; secondhand: quoted by a third party; derived: worked out."
                         : fmt::format("Did you mean {}?", nearest));
  }
  return written;
}

std::vector<YAML::Node> YamlRecord::list(const std::string& key) const {
  const YAML::Node value = node(key);
  if (!value.IsSequence() || value.size() == 0)
    fail(key, fmt::format("'{}' must be a list that is not empty", key), "Begin each of its lines with '- '.");
  return {value.begin(), value.end()};
}

}  // namespace causeway::bench
