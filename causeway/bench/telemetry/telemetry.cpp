#include "causeway/bench/telemetry/telemetry.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/bench/telemetry/nvml.h"
#include "causeway/bench/telemetry/pci_address.h"
#include "causeway/bench/telemetry/processor_telemetry.h"
#include "causeway/bench/telemetry/rocm_smi.h"

namespace causeway::bench {
namespace {

class NoTelemetry : public TelemetryReader {
 public:
  explicit NoTelemetry(std::string why) : why_(std::move(why)) {}

 private:
  Telemetry sample() override { return {}; }
  std::optional<double> sample_energy() override { return std::nullopt; }
  std::string explain_absence() override { return why_; }

  std::string why_;
};

// "cuda:1" is {"cuda", 1}, "cuda" {"cuda", 0}; a negative number stands for one that cannot be read.
std::pair<std::string, int> split_device(const std::string& device) {
  const size_t colon = device.find(':');
  if (colon == std::string::npos) return {device, 0};
  int index = -1;
  const char* end = device.data() + device.size();
  if (std::from_chars(device.data() + colon + 1, end, index).ptr != end) index = -1;
  return {device.substr(0, colon), index};
}

std::optional<double> median(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

Telemetry TelemetryReader::read(std::string moment) {
  const std::lock_guard lock(mutex_);
  Telemetry state = sample();
  state.moment = std::move(moment);
  return state;
}

std::optional<double> TelemetryReader::energy_joules() {
  const std::lock_guard lock(mutex_);
  return sample_energy();
}

std::string TelemetryReader::why_absent() {
  const std::lock_guard lock(mutex_);
  return explain_absence();
}

std::unique_ptr<TelemetryReader> open_telemetry(const std::string& device, const std::string& bus_id,
                                                const TelemetrySources& sources) {
  const auto [vendor, index] = split_device(device);
  if (device == "cpu") return open_processor_telemetry(sources.system, sources.processes);
  if ((vendor != "cuda" && vendor != "hip") || index < 0)
    return std::make_unique<NoTelemetry>(fmt::format("{} is no device with a clock, power or temperature.", device));
  try {
    const std::string address = bus_id.empty() ? pci_address(vendor, index, sources.drivers) : bus_id;
    return vendor == "cuda" ? open_nvml(sources.nvml, index, address) : open_rocm_smi(sources.rocm_smi, index, address);
  } catch (const Error& error) {
    return std::make_unique<NoTelemetry>(
        fmt::format("Clocks, power, temperature, throttling and energy of {} are "
                    "unknown: {}.",
                    device, error.message()));
  }
}

TelemetrySampler::TelemetrySampler(TelemetryReader& reader, std::chrono::milliseconds interval)
    : reader_(reader), thread_([this, interval] { run(interval); }) {}

TelemetrySampler::~TelemetrySampler() { stop(); }

void TelemetrySampler::run(std::chrono::milliseconds interval) {
  auto next = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  do {
    lock.unlock();
    Telemetry sample = reader_.read("during");
    lock.lock();
    samples_.push_back(std::move(sample));
    // A slow reader skips samples, so that it leaves the processor alone in between.
    while (next <= std::chrono::steady_clock::now()) next += interval;
  } while (!stopped_.wait_until(lock, next, [this] { return stop_; }));
}

std::vector<Telemetry> TelemetrySampler::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  if (thread_.joinable()) thread_.join();
  return std::exchange(samples_, {});
}

Telemetry summarize(const std::vector<Telemetry>& samples, std::string moment) {
  std::vector<double> graphics, memory, power, temperature;
  std::map<std::string, int> reasons;
  for (const Telemetry& sample : samples) {
    if (sample.graphics_clock_mhz) graphics.push_back(*sample.graphics_clock_mhz);
    if (sample.memory_clock_mhz) memory.push_back(*sample.memory_clock_mhz);
    if (sample.power_watts) power.push_back(*sample.power_watts);
    if (sample.temperature_celsius) temperature.push_back(*sample.temperature_celsius);
    for (const std::string& reason : sample.throttle_reasons) ++reasons[reason];
  }
  Telemetry summary;
  summary.moment = std::move(moment);
  summary.graphics_clock_mhz = median(graphics);
  summary.memory_clock_mhz = median(memory);
  summary.power_watts = median(power);
  if (!temperature.empty()) summary.temperature_celsius = *std::max_element(temperature.begin(), temperature.end());
  for (const auto& [reason, count] : reasons) {
    const double percent = 100.0 * count / static_cast<double>(samples.size());
    summary.throttle_reasons.push_back(
        percent < 1 ? fmt::format("{} (in {} of {} samples)", reason, count, samples.size())
                    : fmt::format("{} ({:.0f}% of {} samples)", reason, percent, samples.size()));
  }
  return summary;
}

std::string join_words(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) text += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  return text;
}

}  // namespace causeway::bench
