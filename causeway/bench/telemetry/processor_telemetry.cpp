#include "causeway/bench/telemetry/processor_telemetry.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <map>
#include <sstream>

#include "causeway/base/system_files.h"
#include "causeway/bench/telemetry/rapl.h"

namespace causeway::bench {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// The files that tell the processor's temperature, in thousandths of a degree Celsius.
std::vector<fs::path> temperature_files(const fs::path& system) {
  std::vector<fs::path> files;
  for (const fs::path& sensor : entries_starting_with(system / "class" / "hwmon", "hwmon")) {
    const std::string driver = read_first_line(sensor / "name").value_or("");
    if (driver != "coretemp" && driver != "k10temp" && driver != "zenpower") continue;
    for (const fs::path& file : entries_starting_with(sensor, "temp"))
      if (file.string().ends_with("_input")) files.push_back(file);
  }
  if (!files.empty()) return files;
  for (const fs::path& zone : entries_starting_with(system / "class" / "thermal", "thermal_zone")) {
    const std::string kind = read_first_line(zone / "type").value_or("");
    if (kind == "x86_pkg_temp" || kind.starts_with("cpu")) files.push_back(zone / "temp");
  }
  return files;
}

// One counter of thermal slowdowns a package.
std::vector<fs::path> slowdown_counters(const std::vector<fs::path>& cores) {
  std::map<std::string, fs::path> of_package;
  for (const fs::path& core : cores)
    if (const auto package = read_first_line(core / "topology" / "physical_package_id"))
      of_package.try_emplace(*package, core / "thermal_throttle" / "package_throttle_count");
  std::vector<fs::path> counters;
  for (const auto& [package, counter] : of_package)
    if (read_count(counter)) counters.push_back(counter);
  return counters;
}

// The directories of the cores: "cpu0", not "cpufreq".
std::vector<fs::path> core_directories(const fs::path& system) {
  std::vector<fs::path> cores = entries_starting_with(system / "devices" / "system" / "cpu", "cpu");
  std::erase_if(cores, [](const fs::path& core) {
    const std::string name = core.filename().string();
    return name.size() < 4 || !std::isdigit(static_cast<unsigned char>(name[3]));
  });
  return cores;
}

class ProcessorTelemetry : public TelemetryReader {
 public:
  ProcessorTelemetry(const fs::path& system, const fs::path& processes)
      : cpuinfo_(processes / "cpuinfo"), temperatures_(temperature_files(system)), rapl_(system) {
    const std::vector<fs::path> cores = core_directories(system);
    for (const fs::path& core : cores) frequencies_.push_back(core / "cpufreq" / "scaling_cur_freq");
    slowdowns_ = slowdown_counters(cores);
    // Version 2 of control groups: "0::/path".
    if (const auto group = find_value(read_system_file(processes / "self" / "cgroup"), "0:"))
      group_statistics_ = system / "fs" / "cgroup" / fs::path(*group).relative_path() / "cpu.stat";
    slowdown_count_ = slowdown_count();
    quota_count_ = quota_count();
    if (const auto joules = rapl_.joules()) power_since_ = {Clock::now(), *joules};
  }

 private:
  std::optional<double> megahertz() const {
    double sum = 0;
    int count = 0;
    std::istringstream lines(read_system_file(cpuinfo_));
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("cpu MHz")) continue;
      const double value = std::strtod(line.c_str() + std::min(line.find(':') + 1, line.size()), nullptr);
      if (value > 0) sum += value, ++count;
    }
    for (const fs::path& file : count > 0 ? std::vector<fs::path>() : frequencies_)
      if (const auto kilohertz = read_count(file)) sum += static_cast<double>(*kilohertz) / 1e3, ++count;
    return count > 0 ? std::optional(sum / count) : std::nullopt;
  }

  std::optional<double> celsius() const {
    std::optional<double> hottest;
    for (const fs::path& file : temperatures_)
      if (const auto millidegrees = read_count(file))
        hottest = std::max(hottest.value_or(0), static_cast<double>(*millidegrees) / 1e3);
    return hottest;
  }

  uint64_t slowdown_count() const {
    uint64_t count = 0;
    for (const fs::path& counter : slowdowns_) count += read_count(counter).value_or(0);
    return count;
  }

  uint64_t quota_count() const {
    const auto value = find_value(read_system_file(group_statistics_), "nr_throttled");
    return value ? std::strtoull(value->c_str(), nullptr, 10) : 0;
  }

  // The mean since the last time, or nothing when too little time has passed for the counter's steps of a millisecond.
  std::optional<double> watts() {
    constexpr double kShortestSeconds = 0.02;
    const auto joules = rapl_.joules();
    if (!joules || !power_since_) return std::nullopt;
    const auto now = Clock::now();
    const double seconds = std::chrono::duration<double>(now - power_since_->first).count();
    if (seconds < kShortestSeconds) return std::nullopt;
    const double watts = (*joules - power_since_->second) / seconds;
    power_since_ = {now, *joules};
    return watts;
  }

  Telemetry sample() override {
    Telemetry state;
    state.graphics_clock_mhz = megahertz();
    state.temperature_celsius = celsius();
    state.power_watts = watts();
    if (const uint64_t count = slowdown_count(); count != slowdown_count_) {
      state.throttle_reasons.push_back("temperature limit");
      slowdown_count_ = count;
    }
    if (const uint64_t count = quota_count(); count != quota_count_) {
      state.throttle_reasons.push_back("the control group's quota of processor time");
      quota_count_ = count;
    }
    return state;
  }

  std::optional<double> sample_energy() override { return rapl_.joules(); }

  std::string explain_absence() override {
    std::vector<std::string> missing;
    if (!megahertz()) missing.push_back("clock");
    if (!celsius()) missing.push_back("temperature");
    const bool energy = rapl_.joules().has_value();
    if (!energy) missing.insert(missing.end(), {"power", "energy"});
    if (missing.empty()) return "";
    return fmt::format("The kernel does not tell the processor's {}{}.", join_words(missing),
                       energy ? "" : " (energy counters, RAPL, are absent or for root alone)");
  }

  fs::path cpuinfo_;
  std::vector<fs::path> frequencies_;
  std::vector<fs::path> temperatures_;
  std::vector<fs::path> slowdowns_;
  fs::path group_statistics_;
  uint64_t slowdown_count_ = 0;
  uint64_t quota_count_ = 0;
  RaplEnergy rapl_;
  std::optional<std::pair<Clock::time_point, double>> power_since_;
};

}  // namespace

std::unique_ptr<TelemetryReader> open_processor_telemetry(const fs::path& system, const fs::path& processes) {
  return std::make_unique<ProcessorTelemetry>(system, processes);
}

}  // namespace causeway::bench
