#include "causeway/bench/report/cost_table.h"

#include <algorithm>
#include <cctype>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/base/yaml_document.h"
#include "causeway/bench/report/shipped_text.h"
#include "causeway/bench/report/sourced_yaml.h"

namespace causeway::bench {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

bool occurs_as_words(const std::string& phrase, const std::string& text) {
  const auto is_word = [&](size_t i) { return i < text.size() && std::isalnum(static_cast<unsigned char>(text[i])); };
  for (size_t at = text.find(phrase); at != std::string::npos; at = text.find(phrase, at + 1))
    if ((at == 0 || !is_word(at - 1)) && !is_word(at + phrase.size())) return true;
  return false;
}

}  // namespace

const DeviceCost* CostTable::find(std::string_view device_name) const {
  const std::string name = lower(device_name);
  const DeviceCost* best = nullptr;
  for (const DeviceCost& cost : costs)
    if (occurs_as_words(lower(cost.device), name) && (!best || cost.device.size() > best->device.size())) best = &cost;
  return best;
}

std::string CostTable::missing_sentence(std::string_view device_name) const {
  return fmt::format(
      "no hourly cost for {} in {}; add an entry with its device, dollars_per_hour, source, date and tag, and pass the "
      "file with --costs",
      device_name, where);
}

CostTable parse_cost_table(const std::string& yaml, const std::string& where) {
  CostTable table;
  table.where = where;
  const YamlRecord root(parse_yaml(yaml, where), where, {"costs"});
  for (const YAML::Node& node : root.list("costs")) {
    const YamlRecord record(node, where, {"device", "dollars_per_hour", "basis", "source", "date", "tag"});
    DeviceCost cost;
    cost.device = record.text("device");
    cost.dollars_per_hour = record.positive_number("dollars_per_hour");
    cost.basis = record.text_or("basis", "");
    cost.source = record.text("source");
    cost.date = record.date(false);
    cost.tag = record.tag();
    for (const DeviceCost& other : table.costs)
      if (lower(other.device) == lower(cost.device))
        record.fail("device", fmt::format("{} is listed twice", cost.device), "Delete one of the two entries.");
    table.costs.push_back(std::move(cost));
  }
  return table;
}

CostTable read_cost_table(const std::filesystem::path& path) {
  return parse_cost_table(read_text_file(path), path.string());
}

const CostTable& shipped_cost_table() {
  static const CostTable table =
      parse_cost_table(std::string(shipped_benchmark_text("benchmarks/costs.yaml")), "costs.yaml");
  return table;
}

}  // namespace causeway::bench
