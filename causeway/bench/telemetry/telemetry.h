// What a device tells of its own state: clocks, power, temperature, what slows it down, the energy it has used. From
// NVML, ROCm SMI or the kernel's files, all opened at run time and all optional: what cannot be read is absent.
#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "causeway/bench/result.h"
#include "causeway/device/open_device.h"

namespace causeway::bench {

// Any thread may call.
class TelemetryReader {
 public:
  virtual ~TelemetryReader() = default;

  // The state now. For a processor the graphics clock is the mean of its cores' clocks, and power is the mean since the
  // last read (absent when that is less than 20 ms ago). Cheap enough for ten times a second.
  Telemetry read(std::string moment = {});
  // Joules used since some fixed instant: only differences mean anything.
  std::optional<double> energy_joules();
  // One sentence on what is absent and why; empty when nothing is.
  std::string why_absent();

 protected:
  virtual Telemetry sample() = 0;
  virtual std::optional<double> sample_energy() = 0;
  // Of the device: "NVML does not tell this GPU's energy."
  virtual std::string explain_absence() = 0;

 private:
  std::mutex mutex_;
};

// Where telemetry is looked for.
struct TelemetrySources {
  std::string nvml = "libnvidia-ml.so.1";
  std::vector<std::string> rocm_smi = {"librocm_smi64.so.7", "librocm_smi64.so.6", "librocm_smi64.so.5",
                                       "librocm_smi64.so", "/opt/rocm/lib/librocm_smi64.so"};
  DeviceLibraries drivers;  // asked which PCI device "cuda:1" is
  std::filesystem::path system = "/sys";
  std::filesystem::path processes = "/proc";
};

// The reader for a device of open_device()'s names: "cuda:1", "hip", "cpu". `bus_id` is the GPU's PCI address
// ("0000:1b:00.0"), or on NVIDIA its UUID ("GPU-..."); without it the GPU's driver is asked, which counts GPUs in
// another order than the monitoring libraries (CUDA_VISIBLE_DEVICES; fastest first), and where that fails the numbers
// are taken to be the same. Does not throw: where nothing can be read, the reader's why_absent() says why.
std::unique_ptr<TelemetryReader> open_telemetry(const std::string& device, const std::string& bus_id = {},
                                                const TelemetrySources& sources = {});

// Samples the moment "during" in a thread of its own until stopped. The reader must outlive it.
class TelemetrySampler {
 public:
  explicit TelemetrySampler(TelemetryReader& reader,
                            std::chrono::milliseconds interval = std::chrono::milliseconds(100));
  TelemetrySampler(const TelemetrySampler&) = delete;
  TelemetrySampler& operator=(const TelemetrySampler&) = delete;
  ~TelemetrySampler();

  // Ends the sampling and gives every sample in order, at least one; nothing when called again.
  std::vector<Telemetry> stop();

 private:
  void run(std::chrono::milliseconds interval);

  TelemetryReader& reader_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;
  std::vector<Telemetry> samples_;
  std::thread thread_;
};

// Many samples as one: the median of the clocks and of power, the highest temperature, every reason to slow down with
// the share of the samples that show it: "power cap (34% of 120 samples)".
Telemetry summarize(const std::vector<Telemetry>& samples, std::string moment);

// "clock", "clock and power", "clock, power and energy".
std::string join_words(const std::vector<std::string>& words);

}  // namespace causeway::bench
