// What an hour of a device costs: the shipped table (benchmarks/costs.yaml) or a user's edited copy of it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::bench {

struct DeviceCost {
  std::string device;           // a word or phrase of the device's name: "H200" in "NVIDIA H200"
  double dollars_per_hour = 0;  // of one device; above 0
  std::string basis;            // what the price covers; may be empty
  std::string source;
  std::string date;  // "2025", "2025-05" or "2025-05-21"
  std::string tag;   // "primary", "secondhand" or "derived"
};

struct CostTable {
  std::string where;  // the file, for messages
  std::vector<DeviceCost> costs;

  // The entry with the longest `device` that occurs in `device_name` as whole words, in any case; null when none does.
  const DeviceCost* find(std::string_view device_name) const;

  // What to tell the reader of a report when find() has nothing: "no hourly cost for X in costs.yaml; add ...".
  std::string missing_sentence(std::string_view device_name) const;
};

// Throws Error(kInvalidArgument) with the file, the line and what to do: not YAML, an unknown, missing or repeated key,
// a price that is not above 0, a tag or date of another form, a device listed twice.
CostTable parse_cost_table(const std::string& yaml, const std::string& where);
CostTable read_cost_table(const std::filesystem::path& path);
const CostTable& shipped_cost_table();

}  // namespace causeway::bench
