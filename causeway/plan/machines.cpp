#include "causeway/plan/machines.h"

#include <cmath>

#include "causeway/base/error.h"
#include "causeway/base/yaml_document.h"
#include "causeway/bench/report/shipped_text.h"
#include "causeway/bench/report/sourced_yaml.h"
#include "causeway/device/device_peaks.h"
#include "causeway/device/open_device.h"

namespace causeway::plan {
namespace {

constexpr double kMostDevices = 1e6;

Machine parse_machine(const YAML::Node& node, const std::string& where) {
  std::vector<std::string> keys = {"name",       "product",          "target",        "devices_per_node",
                                   "memory_gib", "network_gb_per_s", "link_gb_per_s", "host_gb_per_s",
                                   "source"};
  for (const ConstantField& field : constant_fields()) keys.push_back(field.name);
  const bench::YamlRecord record(node, where, keys);
  Machine machine;
  machine.name = record.text("name");
  machine.product = record.text("product");
  machine.target = record.text("target");
  const double devices = record.positive_number("devices_per_node");
  if (devices != std::floor(devices) || devices > kMostDevices)
    record.fail("devices_per_node", fmt::format("devices_per_node must be a whole number up to {:.0f}", kMostDevices),
                "");
  machine.devices_per_node = static_cast<int64_t>(devices);
  machine.memory_bytes = record.positive_number("memory_gib") * (int64_t{1} << 30);
  machine.network_bytes_per_second = record.positive_number("network_gb_per_s") * 1e9;
  const std::optional<double> host = record.optional_positive_number("host_gb_per_s");
  machine.host_bytes_per_second = host ? *host * 1e9 : parse_target(machine.target).host_bytes_per_second();
  machine.source = record.text("source");
  const std::optional<DevicePeak> peak = find_device_peak(machine.product);
  if (!peak) record.fail("product", fmt::format("no peaks are on record for {}", machine.product), "");
  for (const char* operand : {"bf16", "fp8", "tf32", "f32"})
    if (const auto tflops = peak->tflops(operand)) machine.peak_flops[operand] = *tflops * 1e12;
  machine.memory_bytes_per_second = peak->memory_gb_per_s * 1e9;
  const std::optional<double> link = record.optional_positive_number("link_gb_per_s");
  if (!link && !peak->link_gb_per_s) record.fail("link_gb_per_s", "the datasheet states no link", "Add link_gb_per_s.");
  machine.link_bytes_per_second = link.value_or(peak->link_gb_per_s.value_or(0)) * 1e9;
  for (const ConstantField& field : constant_fields())
    machine.constants.*field.member = record.positive_number(field.name);
  return machine;
}

}  // namespace

std::vector<Machine> parse_machines(const std::string& yaml, const std::string& where) {
  const bench::YamlRecord root(parse_yaml(yaml, where), where, {"machines"});
  std::vector<Machine> machines;
  for (const YAML::Node& node : root.list("machines")) machines.push_back(parse_machine(node, where));
  return machines;
}

const std::vector<Machine>& shipped_machines() {
  static const std::vector<Machine> machines =
      parse_machines(std::string(bench::shipped_benchmark_text("benchmarks/machines.yaml")), "machines.yaml");
  return machines;
}

const Machine& find_machine(const std::string& name) {
  std::vector<std::string> names;
  for (const Machine& machine : shipped_machines()) {
    if (machine.name == name) return machine;
    names.push_back(machine.name);
  }
  const std::string nearest = nearest_name(name, names);
  throw Error(ErrorKind::kNotFound, fmt::format("no hardware is called '{}'", name), "--hardware",
              nearest.empty() ? fmt::format("There are: {}.", fmt::join(names, ", "))
                              : fmt::format("Did you mean {}?", nearest));
}

}  // namespace causeway::plan
