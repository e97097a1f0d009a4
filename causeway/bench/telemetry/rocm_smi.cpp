#include "causeway/bench/telemetry/rocm_smi.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "causeway/base/error.h"
#include "causeway/device/vendor_library.h"

namespace causeway::bench {
namespace {

// Declared after rocm_smi.h.
using Status = int;
constexpr Status kSmiSuccess = 0;
constexpr int kSystemClock = 0, kSmiMemoryClock = 4;
constexpr uint32_t kEdge = 0, kJunction = 1;
constexpr int kCurrentTemperature = 0;

struct Version {
  uint32_t major = 0, minor = 0, patch = 0;
  const char* build = nullptr;
};

struct RocmSmi {
  Status (*init)(uint64_t flags) = nullptr;
  Status (*shut_down)() = nullptr;
  Status (*version)(Version* version) = nullptr;
  Status (*status_string)(Status status, const char** text) = nullptr;
  Status (*device_count)(uint32_t* count) = nullptr;
  Status (*pci_id)(uint32_t device, uint64_t* id) = nullptr;
  Status (*clock)(uint32_t device, int kind, void* frequencies) = nullptr;
  // Since ROCm 6, and the one before, which MI300 does not answer.
  Status (*power)(uint32_t device, uint64_t* microwatts, int* kind) = nullptr;
  Status (*average_power)(uint32_t device, uint32_t sensor, uint64_t* microwatts) = nullptr;
  Status (*temperature)(uint32_t device, uint32_t sensor, int metric, int64_t* millidegrees) = nullptr;
  Status (*energy)(uint32_t device, uint64_t* count, float* microjoules_per_count, uint64_t* nanoseconds) = nullptr;
  Status (*throttle_status)(uint32_t device, uint64_t* bits) = nullptr;  // since ROCm 6

  explicit RocmSmi(std::span<const std::string> names) {
    const VendorLibrary library(names, "telemetry", "");
    library.bind(init, "rsmi_init");
    library.bind(shut_down, "rsmi_shut_down");
    library.bind(version, "rsmi_version_get");
    library.bind(status_string, "rsmi_status_string");
    library.bind(device_count, "rsmi_num_monitor_devices");
    library.bind(pci_id, "rsmi_dev_pci_id_get");
    library.bind(clock, "rsmi_dev_gpu_clk_freq_get");
    library.bind_if_present(power, "rsmi_dev_power_get");
    library.bind_if_present(average_power, "rsmi_dev_power_ave_get");
    library.bind(temperature, "rsmi_dev_temp_metric_get");
    library.bind_if_present(energy, "rsmi_dev_energy_count_get");
    library.bind_if_present(throttle_status, "rsmi_dev_metrics_indep_throttle_status_get");
  }
};

// rsmi_frequencies_t begins with a flag since ROCm 6.
struct FrequenciesBefore6 {
  uint32_t supported = 0, current = 0;
  uint64_t hertz[32] = {};
};
struct Frequencies {
  bool has_deep_sleep = false;
  uint32_t supported = 0, current = 0;
  uint64_t hertz[33] = {};
};
static_assert(sizeof(FrequenciesBefore6) == 264 && sizeof(Frequencies) == 280);

template <typename Table>
std::optional<double> current_megahertz(const std::byte* bytes) {
  Table table;
  std::memcpy(&table, bytes, sizeof(Table));
  if (table.supported > std::size(table.hertz) || table.current >= table.supported) return std::nullopt;
  return static_cast<double>(table.hertz[table.current]) / 1e6;
}

// The kernel's ASIC-independent throttler bits (amdgpu_smu.h): 16 bits a group.
std::vector<std::string> smi_throttle_words(uint64_t bits) {
  std::vector<std::string> words;
  if (bits & 0xffff) words.push_back("power cap");
  if (bits >> 16 & 0xffff) words.push_back("current limit");
  if (bits >> 32 & 0xffff) words.push_back("temperature limit");
  if (bits >> 48) words.push_back("slowed by the firmware");
  return words;
}

// Domain, bus and device of a PCI address; the function is left out, because partitions of a GPU hide their number in
// it. Nothing when it is no address.
std::optional<uint64_t> location(const std::string& bus_id) {
  unsigned domain = 0, bus = 0, device = 0;
  if (std::sscanf(bus_id.c_str(), "%x:%x:%x", &domain, &bus, &device) != 3) return std::nullopt;
  return uint64_t{domain} << 16 | (bus & 0xff) << 8 | (device & 0x1f) << 3;
}
uint64_t location(uint64_t pci_id) { return pci_id >> 32 << 16 | (pci_id & 0xfff8); }

class RocmSmiTelemetry : public TelemetryReader {
 public:
  RocmSmiTelemetry(std::span<const std::string> libraries, int index, const std::string& bus_id) : smi_(libraries) {
    check(smi_.init(0), "start");
    try {
      find(index, bus_id);
    } catch (...) {
      smi_.shut_down();
      throw;
    }
  }
  ~RocmSmiTelemetry() override { smi_.shut_down(); }

 private:
  void check(Status status, const std::string& task) const {
    if (status == kSmiSuccess) return;
    const char* text = nullptr;
    if (smi_.status_string(status, &text) != kSmiSuccess || text == nullptr) text = "it does not say why";
    throw Error(ErrorKind::kUnsupported, fmt::format("ROCm SMI cannot {}: {}", task, text), "telemetry");
  }

  void find(int index, const std::string& bus_id) {
    Version version;
    check(smi_.version(&version), "tell its version");
    before_6_ = version.major < 6;
    uint32_t count = 0;
    check(smi_.device_count(&count), "count the GPUs");
    if (bus_id.empty()) {
      device_ = static_cast<uint32_t>(index);
      if (device_ >= count)
        throw Error(ErrorKind::kNotFound, fmt::format("ROCm SMI shows {} GPUs and no number {}", count, index),
                    "telemetry");
      return;
    }
    const std::optional<uint64_t> wanted = location(bus_id);
    for (device_ = 0; device_ < count; ++device_)
      if (uint64_t id = 0; smi_.pci_id(device_, &id) == kSmiSuccess && wanted == location(id)) return;
    throw Error(ErrorKind::kNotFound, fmt::format("ROCm SMI shows no GPU at {}", bus_id), "telemetry");
  }

  std::optional<double> clock(int kind) const {
    // Larger than the table of any version.
    alignas(8) std::byte bytes[1024] = {};
    if (smi_.clock(device_, kind, bytes) != kSmiSuccess) return std::nullopt;
    return before_6_ ? current_megahertz<FrequenciesBefore6>(bytes) : current_megahertz<Frequencies>(bytes);
  }

  std::optional<double> power() const {
    uint64_t microwatts = 0;
    int kind = 0;
    const bool told = (smi_.power != nullptr && smi_.power(device_, &microwatts, &kind) == kSmiSuccess) ||
                      (smi_.average_power != nullptr && smi_.average_power(device_, 0, &microwatts) == kSmiSuccess);
    return told ? std::optional(static_cast<double>(microwatts) / 1e6) : std::nullopt;
  }

  // All ones where the GPU has no such figure.
  std::optional<uint64_t> throttle_status() const {
    uint64_t bits = 0;
    if (smi_.throttle_status == nullptr || smi_.throttle_status(device_, &bits) != kSmiSuccess || bits == UINT64_MAX)
      return std::nullopt;
    return bits;
  }

  Telemetry sample() override {
    Telemetry state;
    state.graphics_clock_mhz = clock(kSystemClock);
    state.memory_clock_mhz = clock(kSmiMemoryClock);
    state.power_watts = power();
    int64_t millidegrees = 0;
    if (smi_.temperature(device_, kJunction, kCurrentTemperature, &millidegrees) == kSmiSuccess ||
        smi_.temperature(device_, kEdge, kCurrentTemperature, &millidegrees) == kSmiSuccess)
      state.temperature_celsius = static_cast<double>(millidegrees) / 1e3;
    if (const std::optional<uint64_t> bits = throttle_status()) state.throttle_reasons = smi_throttle_words(*bits);
    return state;
  }

  std::optional<double> sample_energy() override {
    uint64_t count = 0, nanoseconds = 0;
    float microjoules_per_count = 0;
    if (smi_.energy == nullptr || smi_.energy(device_, &count, &microjoules_per_count, &nanoseconds) != kSmiSuccess ||
        count == 0)
      return std::nullopt;
    return static_cast<double>(count) * microjoules_per_count / 1e6;
  }

  std::string explain_absence() override {
    const Telemetry state = sample();
    std::vector<std::string> missing;
    if (!state.graphics_clock_mhz) missing.push_back("graphics clock");
    if (!state.memory_clock_mhz) missing.push_back("memory clock");
    if (!state.power_watts) missing.push_back("power");
    if (!state.temperature_celsius) missing.push_back("temperature");
    if (!throttle_status()) missing.push_back("throttling");
    if (!sample_energy()) missing.push_back("energy");
    return missing.empty() ? "" : fmt::format("ROCm SMI does not tell this GPU's {}.", join_words(missing));
  }

  RocmSmi smi_;
  uint32_t device_ = 0;
  bool before_6_ = false;
};

}  // namespace

std::unique_ptr<TelemetryReader> open_rocm_smi(std::span<const std::string> libraries, int index,
                                               const std::string& bus_id) {
  return std::make_unique<RocmSmiTelemetry>(libraries, index, bus_id);
}

}  // namespace causeway::bench
