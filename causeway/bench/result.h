// What a benchmark leaves behind: every sample, what was measured, on what, and why a figure may be distrusted. The
// results store keeps these, the report draws them, `bench compare` tests them against each other.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::bench {

// The statistic that a convention quotes: BabelStream the minimum, all else here the median.
enum class Statistic { kMedian, kMinimum };

// One workload by one provider on one device.
struct Measurement {
  std::string benchmark;  // "gemm", "copy", "attention", "collectives", "train", "startup"
  std::string group;      // cases that belong on one chart: "Llama 70B", "squares", "BabelStream"
  std::string workload;   // what was done, unique within benchmark and dtype: "16384x8192x1280", "triad 1 GiB"
  double size = 0;        // the workload's place on a size axis (bytes, or n of a square); 0: none
  std::string dtype;      // "bf16"; empty where it has no meaning
  std::string provider;   // "Causeway", "cuBLASLt 12.8", "PyTorch 2.11"
  double work = 0;        // of one sample: floating-point operations, bytes or tokens, as `unit` has them
  std::string unit;       // "TFLOP/s", "GB/s", "tokens/s", "s" (seconds themselves: work is then 0)
  Statistic statistic = Statistic::kMedian;
  // Seconds of every sample, in the order taken, by round: providers take turns, one round each, so that a round is
  // what happened to one provider at one time. Never empty rounds.
  std::vector<std::vector<double>> rounds;
  // The mean clock of the device's multiprocessors in each round; empty where it was not read. `bench compare` needs it
  // to tell a slower program from a device that is warmer.
  std::vector<double> clock_mhz;
  std::optional<double> peak;  // of the device, in `unit`, dense and for this dtype
  std::string peak_source;
  bool correct = true;  // the result was compared with a reference while it was timed
  std::string check;    // how, and how far it was off: "max |error| 0.003 of 0.02 allowed, 4,096 elements"
  std::vector<std::string> distrust;           // each a sentence: why this figure may mislead
  std::map<std::string, std::string> details;  // "inputs": "normal(0, 1)", "FLOP formula": "...", "memory": "..."

  // One sample's seconds as a figure in `unit`: work / seconds scaled to it, or the seconds themselves.
  double rate(double seconds) const;
  bool higher_is_better() const { return unit != "s"; }
  // What makes two measurements of different runs comparable.
  std::string key() const { return benchmark + "|" + group + "|" + workload + "|" + dtype + "|" + provider; }
  bool operator==(const Measurement&) const = default;
};

// A device's state at one moment; absent what it does not tell.
struct Telemetry {
  std::string moment;  // "before", "during", "after"
  std::optional<double> graphics_clock_mhz, memory_clock_mhz, power_watts, temperature_celsius;
  std::vector<std::string> throttle_reasons;
  bool operator==(const Telemetry&) const = default;
};

struct BenchmarkRun {
  int64_t id = 0;            // in its store; 0 before it is stored
  std::string started;       // UTC, "2026-11-21T07:30:00Z"
  std::string command;       // as typed
  std::string commit;        // of the program
  std::string device;        // "NVIDIA H200": what the report calls it
  std::string architecture;  // "sm_90a"
  int device_count = 1;
  std::map<std::string, std::string> environment;  // "driver", "compiler", "operating system", "processor", ...
  std::vector<Telemetry> telemetry;
  std::vector<Measurement> measurements;
  bool operator==(const BenchmarkRun&) const = default;
};

}  // namespace causeway::bench
