#include "causeway/bench/report/published_results.h"

#include <algorithm>

#include "causeway/base/error.h"
#include "causeway/base/yaml_document.h"
#include "causeway/bench/report/shipped_text.h"
#include "causeway/bench/report/sourced_yaml.h"

namespace causeway::bench {
namespace {

std::string one_of(const YamlRecord& record, const std::string& key, const std::vector<std::string>& choices) {
  const std::string written = record.text(key);
  if (std::find(choices.begin(), choices.end(), written) == choices.end()) {
    const std::string nearest = nearest_name(written, choices);
    record.fail(key, fmt::format("'{}' is not a {} of the benchmark lab", written, key),
                nearest.empty() ? fmt::format("Use one of: {}.", fmt::join(choices, ", "))
                                : fmt::format("Did you mean {}?", nearest));
  }
  return written;
}

}  // namespace

std::vector<PublishedResult> parse_published_results(const std::string& yaml, const std::string& where) {
  std::vector<PublishedResult> results;
  const YamlRecord root(parse_yaml(yaml, where), where, {"results"});
  for (const YAML::Node& node : root.list("results")) {
    const YamlRecord record(node, where,
                            {"source", "date", "tag", "benchmark", "group", "dtype", "unit", "note", "results"});
    PublishedResult result;
    result.source = record.text("source");
    result.date = record.date(true);
    result.tag = record.tag();
    result.benchmark = one_of(record, "benchmark", {"gemm", "copy", "attention", "collectives", "train", "startup"});
    result.group = record.text("group");
    result.dtype = record.text_or("dtype", "");
    result.unit = one_of(record, "unit", {"TFLOP/s", "GB/s", "s", "tokens/s per device", "TFLOP/s per device"});
    result.note = record.text_or("note", "");
    for (const YAML::Node& entry : record.list("results")) {
      const YamlRecord workload(entry, where, {"workload", "size", "devices"});
      result.workload = workload.text("workload");
      result.size = workload.optional_positive_number("size").value_or(0);
      const YAML::Node devices = workload.node("devices");
      if (!devices.IsMap() || devices.size() == 0)
        workload.fail("devices", "'devices' must map devices to figures", "Write it as {H100: 720, MI300X: 620}.");
      std::vector<std::string> names;
      for (const auto& figure : devices) names.push_back(figure.first.Scalar());
      const YamlRecord figures(devices, where, names);
      for (const std::string& name : names) {
        result.device = name;
        result.value = figures.positive_number(name);
        results.push_back(result);
      }
    }
  }
  return results;
}

const std::vector<PublishedResult>& shipped_published_results() {
  static const std::vector<PublishedResult> results =
      parse_published_results(std::string(shipped_benchmark_text("benchmarks/published.yaml")), "published.yaml");
  return results;
}

}  // namespace causeway::bench
