#include "causeway/bench/telemetry/nvml.h"

#include <fmt/format.h>

#include "causeway/base/error.h"
#include "causeway/device/vendor_library.h"

namespace causeway::bench {
namespace {

// Declared after the NVML API reference (driver 525); handles are pointers.
using Result = int;
constexpr Result kNvmlSuccess = 0;
constexpr int kGraphicsClock = 0, kNvmlMemoryClock = 2;
constexpr int kGpuTemperature = 0;

struct Nvml {
  Result (*init)() = nullptr;
  Result (*shutdown)() = nullptr;
  const char* (*error_string)(Result) = nullptr;
  Result (*handle_by_index)(unsigned index, void** device) = nullptr;
  Result (*handle_by_bus_id)(const char* bus_id, void** device) = nullptr;
  Result (*handle_by_uuid)(const char* uuid, void** device) = nullptr;
  Result (*clock)(void* device, int kind, unsigned* megahertz) = nullptr;
  Result (*power)(void* device, unsigned* milliwatts) = nullptr;
  Result (*temperature)(void* device, int sensor, unsigned* celsius) = nullptr;
  Result (*throttle_reasons)(void* device, unsigned long long* bits) = nullptr;
  // Since Volta; null in old drivers.
  Result (*energy)(void* device, unsigned long long* millijoules) = nullptr;

  explicit Nvml(const std::string& name) {
    const std::string names[] = {name};
    const VendorLibrary library(names, "telemetry", "");
    library.bind(init, "nvmlInit_v2");
    library.bind(shutdown, "nvmlShutdown");
    library.bind(error_string, "nvmlErrorString");
    library.bind(handle_by_index, "nvmlDeviceGetHandleByIndex_v2");
    library.bind(handle_by_bus_id, "nvmlDeviceGetHandleByPciBusId_v2");
    library.bind(handle_by_uuid, "nvmlDeviceGetHandleByUUID");
    library.bind(clock, "nvmlDeviceGetClockInfo");
    library.bind(power, "nvmlDeviceGetPowerUsage");
    library.bind(temperature, "nvmlDeviceGetTemperature");
    // The name since driver 535, and the one before.
    library.bind_if_present(throttle_reasons, "nvmlDeviceGetCurrentClocksEventReasons");
    if (throttle_reasons == nullptr) library.bind(throttle_reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
    library.bind_if_present(energy, "nvmlDeviceGetTotalEnergyConsumption");
  }
};

// nvmlClocksEventReasons. Those that are settings (application and display clocks) or idleness slow nothing down.
std::vector<std::string> nvml_throttle_words(unsigned long long bits) {
  constexpr unsigned long long kPowerCap = 0x4, kHardware = 0x8, kSyncBoost = 0x10, kThermalBySoftware = 0x20,
                               kThermalByHardware = 0x40, kPowerBrake = 0x80;
  std::vector<std::string> words;
  if (bits & kPowerCap) words.push_back("power cap");
  if (bits & kThermalBySoftware) words.push_back("temperature limit");
  if (bits & kThermalByHardware) words.push_back("overheating: clocks halved or less");
  if (bits & kPowerBrake) words.push_back("power brake from the machine: clocks halved or less");
  // Set beside the two reasons above; alone it is all that is known.
  if ((bits & kHardware) && !(bits & (kThermalByHardware | kPowerBrake)))
    words.push_back("hardware slowdown: clocks halved or less");
  if (bits & kSyncBoost) words.push_back("held to the clock of slower GPUs (sync boost)");
  return words;
}

class NvmlTelemetry : public TelemetryReader {
 public:
  NvmlTelemetry(const std::string& library, int index, const std::string& bus_id) : nvml_(library) {
    check(nvml_.init(), "start");
    const Result result = bus_id.empty() ? nvml_.handle_by_index(static_cast<unsigned>(index), &device_)
                          : bus_id.starts_with("GPU-") || bus_id.starts_with("MIG-")
                              ? nvml_.handle_by_uuid(bus_id.c_str(), &device_)
                              : nvml_.handle_by_bus_id(bus_id.c_str(), &device_);
    if (result != kNvmlSuccess) nvml_.shutdown();
    check(result, bus_id.empty() ? fmt::format("find GPU {}", index) : fmt::format("find GPU {}", bus_id));
  }
  ~NvmlTelemetry() override { nvml_.shutdown(); }

 private:
  void check(Result result, const std::string& task) const {
    if (result == kNvmlSuccess) return;
    throw Error(ErrorKind::kUnsupported, fmt::format("NVML cannot {}: {}", task, nvml_.error_string(result)),
                "telemetry");
  }

  Telemetry sample() override {
    Telemetry state;
    unsigned value = 0;
    if (nvml_.clock(device_, kGraphicsClock, &value) == kNvmlSuccess) state.graphics_clock_mhz = value;
    if (nvml_.clock(device_, kNvmlMemoryClock, &value) == kNvmlSuccess) state.memory_clock_mhz = value;
    if (nvml_.power(device_, &value) == kNvmlSuccess) state.power_watts = value / 1e3;
    if (nvml_.temperature(device_, kGpuTemperature, &value) == kNvmlSuccess) state.temperature_celsius = value;
    if (unsigned long long bits = 0; nvml_.throttle_reasons(device_, &bits) == kNvmlSuccess)
      state.throttle_reasons = nvml_throttle_words(bits);
    return state;
  }

  std::optional<double> sample_energy() override {
    unsigned long long millijoules = 0;
    if (nvml_.energy == nullptr || nvml_.energy(device_, &millijoules) != kNvmlSuccess) return std::nullopt;
    return static_cast<double>(millijoules) / 1e3;
  }

  std::string explain_absence() override {
    const Telemetry state = sample();
    std::vector<std::string> missing;
    if (!state.graphics_clock_mhz) missing.push_back("graphics clock");
    if (!state.memory_clock_mhz) missing.push_back("memory clock");
    if (!state.power_watts) missing.push_back("power");
    if (!state.temperature_celsius) missing.push_back("temperature");
    if (unsigned long long bits = 0; nvml_.throttle_reasons(device_, &bits) != kNvmlSuccess)
      missing.push_back("throttling");
    if (!sample_energy()) missing.push_back("energy");
    return missing.empty() ? "" : fmt::format("NVML does not tell this GPU's {}.", join_words(missing));
  }

  Nvml nvml_;
  void* device_ = nullptr;
};

}  // namespace

std::unique_ptr<TelemetryReader> open_nvml(const std::string& library, int index, const std::string& bus_id) {
  return std::make_unique<NvmlTelemetry>(library, index, bus_id);
}

}  // namespace causeway::bench
