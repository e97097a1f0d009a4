// Reading YAML records that cite a source: what costs.yaml and published.yaml have in common.
#pragma once

#include <yaml-cpp/yaml.h>

#include <optional>
#include <string>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::bench {

// A map in a YAML file. Every complaint is an Error(kInvalidArgument) that names the file and the line.
class YamlRecord {
 public:
  // `keys`: those allowed. Throws when `node` is no map, has another key (naming the nearest) or a key twice.
  YamlRecord(const YAML::Node& node, std::string file, const std::vector<std::string>& keys);

  // The text of a key; throws when it is absent or empty, or no plain value.
  std::string text(const std::string& key) const;
  std::string text_or(const std::string& key, const std::string& otherwise) const;
  // A finite number above 0.
  double positive_number(const std::string& key) const;
  std::optional<double> optional_positive_number(const std::string& key) const;
  // A year, year-month or year-month-day, or, where `may_be_undated`, the word "undated".
  std::string date(bool may_be_undated) const;
  // "primary", "secondhand" or "derived".
  std::string tag() const;
  // A list that is not empty.
  std::vector<YAML::Node> list(const std::string& key) const;
  YAML::Node node(const std::string& key) const;

  [[noreturn]] void fail(const std::string& key, const std::string& what, const std::string& hint) const;

 private:
  YAML::Node node_;
  std::string file_;
};

}  // namespace causeway::bench
