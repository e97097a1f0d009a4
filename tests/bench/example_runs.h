// Runs as the benchmark lab stores them, for the tests of the report: an H200 with three providers, a CPU, and a
// history of many runs.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "causeway/bench/report/report.h"

namespace causeway::bench {

inline Measurement example_measurement(std::string benchmark, std::string group, std::string workload,
                                       std::string provider, std::string unit, double work, double figure,
                                       unsigned seed) {
  Measurement m;
  m.benchmark = std::move(benchmark);
  m.group = std::move(group);
  m.workload = std::move(workload);
  m.provider = std::move(provider);
  m.unit = std::move(unit);
  m.work = work;
  const double scale = m.unit == "TFLOP/s" ? 1e12 : m.unit == "GB/s" ? 1e9 : 1;
  const double seconds = m.unit == "s" ? figure : work / (figure * scale);
  std::mt19937 random(seed);
  std::normal_distribution<double> noise(0, 0.012);
  for (int round = 0; round < 5; ++round) {
    m.rounds.emplace_back();
    for (int i = 0; i < 20; ++i) m.rounds.back().push_back(seconds * (1 + std::abs(noise(random))));
  }
  m.details["inputs"] = "normal(0, 1)";
  return m;
}

inline BenchmarkRun example_h200_run() {
  BenchmarkRun run;
  run.started = "2026-11-20T07:30:00Z";
  run.command = "causeway bench";
  run.commit = "dc1b9c1f0a2b3c4d5e6f";
  run.device = "NVIDIA H200";
  run.architecture = "sm_90a";
  run.environment = {
      {"driver", "570.124.06"}, {"processor", "Intel Xeon Platinum 8480C"}, {"compiler", "clang 19.1.7"}};
  run.telemetry = {{"before", 1980, 3201, 118, 34, {}},
                   {"during", 1515, 3201, 698, 61, {"power cap"}},
                   {"after", 1980, 3201, 190, 48, {}}};
  unsigned seed = 1;
  const std::string peak_bf16 = "NVIDIA H200 data sheet, dense bf16";
  const struct {
    const char* shape;
    double flops;
    double causeway, cublas, pytorch;
  } shapes[] = {{"16384x8192x1280", 3.436e11, 651, 688, 671},
                {"16384x1024x8192", 2.749e11, 640, 676, 655},
                {"16384x8192x7168", 1.924e12, 713, 738, 729},
                {"16384x3584x8192", 9.62e11, 694, 722, 715},
                {"8192x8192x8192", 1.0995e12, 707, 727, 724}};
  for (const std::string dtype : {"bf16", "fp8"}) {
    const double factor = dtype == "fp8" ? 1.78 : 1;
    for (const auto& s : shapes)
      for (const auto& [provider, figure] : {std::pair<std::string, double>{"Causeway", s.causeway},
                                             {"cuBLASLt 12.8", s.cublas},
                                             {"PyTorch 2.11", s.pytorch}}) {
        Measurement m =
            example_measurement("gemm", "Llama 70B", s.shape, provider, "TFLOP/s", s.flops, figure * factor, ++seed);
        m.dtype = dtype;
        m.peak = dtype == "fp8" ? 1979 : 989.5;
        m.peak_source = dtype == "fp8" ? "NVIDIA H200 data sheet, dense fp8" : peak_bf16;
        m.check = "max |error| 0.0031 of 0.02 allowed, 4,096 elements";
        if (provider == "PyTorch 2.11" && std::string(s.shape) == "16384x1024x8192")
          m.distrust = {"The power cap throttled the device in 2 of 5 rounds, so that this figure may be 3 % low."};
        if (dtype == "fp8" && provider == "PyTorch 2.11" && std::string(s.shape) == "8192x8192x8192") {
          m.correct = false;
          m.check = "max |error| 0.41 of 0.02 allowed, 4,096 elements";
        }
        run.measurements.push_back(m);
      }
  }
  for (const std::string dtype : {"bf16", "fp8", "fp32"})
    for (double n = 1024; n <= 32768; n *= 2)
      for (const auto& [provider, best] :
           {std::pair<std::string, double>{"Causeway", 712.0}, {"cuBLASLt 12.8", 741.0}, {"PyTorch 2.11", 733.0}}) {
        const double factor = dtype == "fp8" ? 1.8 : dtype == "fp32" ? 0.07 : 1;
        Measurement m = example_measurement("gemm", "squares", fmt::format("{0}x{0}x{0}", n), provider, "TFLOP/s",
                                            2 * n * n * n, factor * best * (1 - std::exp(-n / 1900)), ++seed);
        m.dtype = dtype;
        m.size = n;
        m.peak = dtype == "fp8" ? 1979 : dtype == "fp32" ? 66.9 : 989.5;
        m.peak_source = "NVIDIA H200 data sheet, dense " + dtype;
        run.measurements.push_back(m);
      }
  const double gib = 1024.0 * 1024 * 1024;
  for (const auto& [kernel, figure] :
       {std::pair<std::string, double>{"copy", 4020}, {"mul", 4015}, {"add", 4160}, {"triad", 4155}, {"dot", 4390}}) {
    for (const auto& [provider, factor] : {std::pair<std::string, double>{"Causeway", 1.0}, {"PyTorch 2.11", 0.985}}) {
      Measurement m = example_measurement("copy", "BabelStream", kernel + " 1 GiB", provider, "GB/s", 2 * gib,
                                          figure * factor, ++seed);
      m.statistic = Statistic::kMinimum;
      m.dtype = "fp64";
      m.size = gib;
      m.peak = 4800;
      m.peak_source = "NVIDIA H200 data sheet";
      run.measurements.push_back(m);
    }
  }
  for (double bytes = 1 << 20; bytes <= 4 * gib; bytes *= 4)
    for (const auto& [provider, best] : {std::pair<std::string, double>{"Causeway", 4080}, {"cudaMemcpy", 3890}}) {
      Measurement m = example_measurement(
          "copy", "device copy",
          bytes < gib ? fmt::format("{} MiB", bytes / (1 << 20)) : fmt::format("{} GiB", bytes / gib), provider, "GB/s",
          2 * bytes, best * (1 - std::exp(-bytes / 6e7)), ++seed);
      m.size = bytes;
      m.peak = 4800;
      m.peak_source = "NVIDIA H200 data sheet";
      if (bytes <= (1 << 22)) m.distrust = {"The buffer fits the 50 MB cache, which rotation could not defeat."};
      run.measurements.push_back(m);
    }
  for (double bytes = 1 << 24; bytes <= 1 << 28; bytes *= 2)
    for (const auto& [place, best] : {std::pair<std::string, double>{"in place", 310}, {"out of place", 302}}) {
      Measurement m = example_measurement("collectives", "all_gather, 8 devices",
                                          fmt::format("{} MiB {}, all_gather, 8 devices", bytes / (1 << 20), place),
                                          "NCCL 2.28.3", "GB/s", bytes, best * (1 - std::exp(-bytes / 2e7)), ++seed);
      m.size = bytes;
      m.dtype = "bf16";
      run.measurements.push_back(m);
    }
  for (const char* kind : {"causal", "full", "sliding window 1024", "document", "ALiBi"})
    for (const char* pass : {"forward", "backward"})
      for (const auto& [provider, figure] : {std::pair<std::string, double>{"Causeway", 431}, {"PyTorch 2.11", 402}}) {
        Measurement m = example_measurement("attention", pass, kind, provider, "TFLOP/s", 1e12,
                                            figure * (pass[0] == 'b' ? 0.72 : 1) * (kind[0] == 's' ? 0.6 : 1), ++seed);
        m.dtype = "bf16";
        m.peak = 989.5;
        m.peak_source = peak_bf16;
        run.measurements.push_back(m);
      }
  for (const auto& [model, causeway, pytorch] : {std::tuple<std::string, double, double>{"GPT 1.5B", 41200, 44100},
                                                 {"Llama 3 8B", 10950, 11900},
                                                 {"Llama 70B, 4 layers", 19800, 21400},
                                                 {"Mistral 7B", 9100, 10900}})
    for (const auto& [provider, figure] :
         {std::pair<std::string, double>{"Causeway", causeway}, {"PyTorch 2.11", pytorch}}) {
      Measurement m = example_measurement("train", model, model, provider, "tokens/s", 32768, figure, ++seed);
      m.dtype = "bf16";
      m.details["MFU"] = "43 % of 989.5 TFLOP/s by 6N + causal attention";
      if (provider == "Causeway") m.details["J per token"] = fmt::format("{:.4g}", 650 / figure);
      run.measurements.push_back(m);
    }
  for (const auto& [workload, seconds] : {std::pair<std::string, double>{"cold caches", 9.4}, {"warm caches", 1.3}})
    for (const auto& [provider, factor] : {std::pair<std::string, double>{"Causeway", 1.0}, {"PyTorch 2.11", 4.2}})
      run.measurements.push_back(
          example_measurement("startup", "GPT 1.5B", workload, provider, "s", 0, seconds * factor, ++seed));
  return run;
}

inline BenchmarkRun example_cpu_run() {
  BenchmarkRun run;
  run.started = "2026-11-19T21:04:00Z";
  run.command = "causeway bench gemm copy";
  run.commit = "dc1b9c1f0a2b3c4d5e6f";
  run.device = "AMD EPYC 9554 64-Core Processor";
  run.architecture = "x86-64, AVX-512";
  run.environment = {{"operating system", "Debian 12"}};
  unsigned seed = 900;
  for (double n = 1024; n <= 8192; n *= 2)
    for (const auto& [provider, best] : {std::pair<std::string, double>{"Causeway", 3.1}, {"oneDNN 3.7", 3.4}}) {
      Measurement m = example_measurement("gemm", "squares", fmt::format("{0}x{0}x{0}", n), provider, "TFLOP/s",
                                          2 * n * n * n, best * (1 - std::exp(-n / 900)), ++seed);
      m.dtype = "fp32";
      m.size = n;
      m.peak = 4.2;
      m.peak_source = "64 cores, 2 AVX-512 units at 3.1 GHz, measured";
      run.measurements.push_back(m);
    }
  for (const char* kernel : {"copy", "mul", "add", "triad", "dot"}) {
    Measurement m = example_measurement("copy", "BabelStream", std::string(kernel) + " 1 GiB", "Causeway", "GB/s", 2e9,
                                        372, ++seed);
    m.statistic = Statistic::kMinimum;
    m.dtype = "fp64";
    m.size = 1024.0 * 1024 * 1024;
    run.measurements.push_back(m);
  }
  Measurement train =
      example_measurement("train", "GPT-2 124M", "GPT-2 124M", "Causeway", "tokens/s", 4096, 2150, ++seed);
  train.dtype = "bf16";
  run.measurements.push_back(train);
  return run;
}

inline constexpr const char* kExampleSlowKey = "gemm|Llama 70B|16384x8192x1280|bf16|Causeway";

// `count` runs of the H200, a day apart and ending before example_h200_run(), each a little faster than the one before;
// the workload 16384x8192x1280 in bf16 by Causeway loses 4 % at run `slow`.
inline std::vector<BenchmarkRun> example_history(int count, int slow) {
  std::vector<BenchmarkRun> runs;
  std::mt19937 random(7);
  for (int r = 0; r < count; ++r) {
    BenchmarkRun run = example_h200_run();
    run.started = fmt::format("2026-{:02}-{:02}T07:30:00Z", 5 + r / 28, 1 + r % 28);
    run.commit = fmt::format("{:08x}{:08x}", random(), random());
    for (Measurement& m : run.measurements) {
      double factor = 1 + 0.12 * (count - r) / count + std::normal_distribution<double>(0, 0.004)(random);
      if (m.key() == kExampleSlowKey && r >= slow) factor *= 1.042;
      for (auto& round : m.rounds)
        for (double& seconds : round) seconds *= m.provider == "Causeway" ? factor : 1;
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

inline RegressionMark example_regression(const std::vector<BenchmarkRun>& history, int slow) {
  return {kExampleSlowKey, history[static_cast<size_t>(slow)].commit, 1.042, "NVIDIA H200"};
}

}  // namespace causeway::bench
