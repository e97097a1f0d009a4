// One run of benchmarks on one device: what is measured goes into the store at once, with the device's state before,
// during and after, and onto the screen.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "causeway/bench/clock_probe.h"
#include "causeway/bench/result.h"
#include "causeway/bench/results/results_store.h"
#include "causeway/bench/telemetry/telemetry.h"
#include "causeway/device/device.h"
#include "causeway/device/device_peaks.h"
#include "causeway/program/context.h"

namespace causeway::bench {

struct SessionOptions {
  std::string device = "auto";
  std::shared_ptr<Context> context = nullptr;  // in place of one on `device`
  std::filesystem::path store;                 // empty: default_store_path()
  std::string command;                         // as typed
  int device_count = 1;                        // how many the figures are of
  int samples = 100;                           // wanted of each figure: fewer are a reason for distrust
};

class BenchmarkSession {
 public:
  // Opens the device; the run begins in the store with the first figure. Throws as Context::open() and
  // ResultsStore do.
  explicit BenchmarkSession(const SessionOptions& options);
  ~BenchmarkSession();

  // Of the device; the thread's current one while the session lives.
  Context& context() const { return *context_; }
  Device& device() const { return context_->device(); }
  const std::shared_ptr<Device>& shared_device() const { return context_->shared_device(); }
  bool is_gpu() const { return device().target().is_gpu(); }
  const std::optional<DevicePeak>& peak() const { return peak_; }
  // Of the last cache before memory; 0 where it is not known.
  int64_t cache_bytes() const { return cache_bytes_; }
  TelemetryReader& telemetry() const { return *telemetry_; }
  // Null for a processor.
  ClockProbe* clock() const { return clock_.get(); }
  const std::filesystem::path& store() const { return store_.path(); }
  int64_t run() const { return run_; }  // 0 before the first figure

  // Prints a heading when the benchmark or group differs from the last figure's, then a line each; stores them.
  void record(std::vector<Measurement> measurements);
  // What could not be measured, and why; printed at the end.
  std::vector<std::string>& skipped() { return skipped_; }

  // Stores the state after, and prints what was skipped, what to distrust and where the figures are. True when there
  // are figures, every result was right and none above the device's peak.
  bool finish();

 private:
  void begin();
  void judge(Measurement& measurement) const;

  SessionOptions options_;
  std::shared_ptr<Context> context_;
  ContextScope context_scope_;
  std::string product_;
  std::optional<DevicePeak> peak_;
  int64_t cache_bytes_ = 0;
  std::unique_ptr<TelemetryReader> telemetry_;
  std::unique_ptr<ClockProbe> clock_;
  ResultsStore store_;
  Telemetry before_;
  std::unique_ptr<TelemetrySampler> sampler_;
  int64_t run_ = 0;  // 0: not begun
  std::string heading_;
  size_t recorded_ = 0;
  bool all_right_ = true;
  std::vector<std::string> skipped_;
  std::vector<std::pair<std::string, size_t>> distrust_;  // sentence, figures
};

}  // namespace causeway::bench
