// The recipe's data.sources: the datasets of a mixture and their weights.
#pragma once

#include <string>
#include <vector>

#include "causeway/namespaces.h"

namespace YAML {
class Node;
}

namespace causeway::train {

struct DataSource {
  std::string path;   // as data.path has it
  double weight = 1;  // positive; only the ratios of weights count
  bool operator==(const DataSource&) const = default;
};

// Reads a YAML list of maps, "[{path: a, weight: 2}, {path: b}]"; empty for "[]" and for nothing. Throws
// Error(kInvalidArgument) naming the source, from 1: no path, the same path twice, a weight that is not a number
// above 0, a key that there is not.
std::vector<DataSource> parse_data_sources(const std::string& text);
// As one line that reads back the same.
std::string print_data_sources(const std::vector<DataSource>& sources);
// A list that a recipe's file holds as one line of YAML.
std::string data_sources_text(const YAML::Node& list);

}  // namespace causeway::train
