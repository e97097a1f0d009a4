#include "causeway/bench/gemm_benchmark.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "causeway/base/error.h"
#include "causeway/bench/choices.h"
#include "causeway/device/gpu_architecture.h"
#include "causeway/device/preferred_sizes.h"

namespace causeway::bench {
namespace {

constexpr int64_t kChecked = 16;  // rows and columns

// The i-th of `count` lines that are evenly chosen.
int64_t checked_line(int64_t i, int64_t count, int64_t lines) {
  return i * (lines - 1) / std::max<int64_t>(1, count - 1);
}

// Of a matrix's lines, evenly chosen ones, as doubles.
std::vector<std::vector<double>> read_lines(Device& device, const void* matrix, DType dtype, int64_t lines,
                                            int64_t length) {
  const size_t line_bytes = static_cast<size_t>(length) * size_bytes(dtype);
  std::vector<std::byte> bytes(line_bytes);
  std::vector<std::vector<double>> result;
  const int64_t count = std::min(kChecked, lines);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t line = checked_line(i, count, lines);
    device.copy_to_host(bytes.data(), static_cast<const std::byte*>(matrix) + static_cast<size_t>(line) * line_bytes,
                        line_bytes);
    std::vector<double>& values = result.emplace_back(static_cast<size_t>(length));
    for (size_t j = 0; j < values.size(); ++j) values[j] = read_element(dtype, bytes.data(), j);
  }
  return result;
}

// The same of a matrix whose lines lie across: [length, lines] in memory.
std::vector<std::vector<double>> read_columns(Device& device, const void* matrix, DType dtype, int64_t lines,
                                              int64_t length) {
  constexpr int64_t kMostRows = 256;  // copied at once
  const size_t row_bytes = static_cast<size_t>(lines) * size_bytes(dtype);
  std::vector<std::byte> bytes(static_cast<size_t>(std::min(kMostRows, length)) * row_bytes);
  const int64_t count = std::min(kChecked, lines);
  std::vector<std::vector<double>> result(static_cast<size_t>(count));
  for (int64_t first = 0; first < length; first += kMostRows) {
    const auto rows = static_cast<size_t>(std::min(kMostRows, length - first));
    device.copy_to_host(bytes.data(), static_cast<const std::byte*>(matrix) + static_cast<size_t>(first) * row_bytes,
                        rows * row_bytes);
    for (int64_t i = 0; i < count; ++i) {
      const auto line = static_cast<size_t>(checked_line(i, count, lines));
      for (size_t row = 0; row < rows; ++row)
        result[static_cast<size_t>(i)].push_back(read_element(dtype, bytes.data() + row * row_bytes, line));
    }
  }
  return result;
}

// The GEMM's elements that are looked at, exact but for the operands' own rounding, with what they may be off.
struct GemmReference {
  std::vector<std::vector<double>> a, b;
  int64_t m, n;
  DType operands, result;
  bool tf32;
  GemmScales scales;  // empty without

  GemmReference(Device& device, const GemmWorkload& w, const void* a_data, const void* b_data)
      : a((w.a_along_m ? read_columns : read_lines)(device, a_data, w.operands, w.m, w.k)),
        b((w.b_along_n ? read_columns : read_lines)(device, b_data, w.operands, w.n, w.k)),
        m(w.m),
        n(w.n),
        operands(w.operands),
        result(w.result()),
        tf32(w.tf32),
        scales(w.block_scales ? gemm_scales(w) : GemmScales()) {}

  // Sums are f32; those of 8-bit operands keep about 14 bits on Hopper, operands of tf32 11. Then the result is
  // rounded.
  double sum_error() const { return tf32 ? 0x1p-10 : size_bytes(operands) == 1 ? 0x1p-12 : 0x1p-18; }
  double result_error() const { return result == DType::kBF16 ? 0x1p-8 : result == DType::kF16 ? 0x1p-10 : 0x1p-22; }

  static int64_t line_of(size_t checked, size_t count, int64_t lines) {
    return checked_line(static_cast<int64_t>(checked), static_cast<int64_t>(count), lines);
  }
  double scale(size_t row, size_t column, size_t k) const {
    if (scales.a.empty()) return 1;
    const auto block = static_cast<int64_t>(k) / kScaledBlock;
    const int64_t square = line_of(column, b.size(), n) / kScaledBlock;
    return scales.a[static_cast<size_t>(block * m + line_of(row, a.size(), m))] *
           static_cast<double>(scales.b[static_cast<size_t>(block * (n / kScaledBlock) + square)]);
  }

  void check(Device& device, const void* c_data, Measurement& measurement) const {
    const std::vector<std::vector<double>> c = read_lines(device, c_data, result, m, n);
    double worst = 0, worst_share = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      for (size_t j = 0; j < b.size(); ++j) {
        double sum = 0, magnitude = 0;
        for (size_t k = 0; k < a[i].size(); ++k) {
          const double product = a[i][k] * b[j][k] * scale(i, j, k);
          sum += product;
          magnitude += std::abs(product);
        }
        const auto column = static_cast<size_t>(line_of(j, b.size(), n));
        const double error = std::abs(c[i][column] - sum);
        const double allowed = sum_error() * magnitude + result_error() * std::abs(sum) + 1e-30;
        worst = std::max(worst, error);
        // A NaN compares as no smaller.
        if (!(error / allowed <= worst_share)) worst_share = error / allowed;
      }
    }
    if (!(worst_share <= 1)) measurement.correct = false;
    measurement.check =
        fmt::format("{} elements against sums in double: largest error {:.3g}, {:.0f} % of what is allowed",
                    a.size() * b.size(), worst, 100 * worst_share);
  }
};

void add_square(std::vector<GemmCase>& cases, int64_t n, DType operands) {
  cases.push_back({"squares", {n, n, n, operands}});
}

}  // namespace

bool has_blocks(const GemmWorkload& w) { return w.k % kScaledBlock == 0 && w.n % kScaledBlock == 0; }

GemmWorkload parse_gemm_shape(const std::string& text, DType operands, bool block_scales) {
  GemmWorkload workload;
  workload.operands = operands;
  workload.block_scales = block_scales;
  int64_t* const sizes[] = {&workload.m, &workload.n, &workload.k};
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  bool good = true;
  for (int i = 0; i < 3 && good; ++i) {
    const auto [next, error] = std::from_chars(at, end, *sizes[i]);
    good = error == std::errc() && *sizes[i] > 0 && *sizes[i] <= (int64_t{1} << 24);
    at = next;
    if (good && i < 2) {
      good = at != end && (*at == 'x' || *at == ',');
      if (good) ++at;
    }
  }
  if (!good || at != end)
    throw Error(ErrorKind::kInvalidArgument, fmt::format("'{}' is not a shape", text), "--shape",
                "Give m, n and k, for example 8192x8192x8192 for C[m, n] = A[m, k] B[n, k]^T.");
  if (block_scales && !has_blocks(workload))
    throw Error(ErrorKind::kInvalidArgument, fmt::format("{} has parts of blocks", text), "--shape",
                "With scales of blocks, give n and k that are multiples of 128.");
  return workload;
}

void set_gemm_order(GemmWorkload& workload, const std::string& order) {
  const std::vector<std::string> orders = {"nt", "nn", "tn", "tt"};
  const size_t chosen = choose("order of a GEMM's operands", order, "--order", orders);
  if (workload.block_scales && chosen != 0)
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("operands whose blocks have scales do not lie as in '{}'", order), "--order",
                "Leave it out with f8e4m3_block: both operands lie along k.");
  workload.a_along_m = order[0] == 't';
  workload.b_along_n = order[1] == 'n';
}

std::vector<GemmCase> standard_gemm_cases(bool is_gpu, DType operands, int64_t memory_bytes) {
  std::vector<GemmCase> cases;
  const auto add = [&](const char* group, int64_t m, int64_t n, int64_t k) {
    cases.push_back({group, {m, n, k, operands}});
  };
  if (is_gpu) {
    add("Llama 70B", 16384, 8192, 1280);
    add("Llama 70B", 16384, 1024, 8192);
    add("Llama 70B", 16384, 8192, 7168);
    add("Llama 70B", 16384, 3584, 8192);
    add("Llama 70B", 8192, 8192, 8192);
    add("Llama 8B", 8192, 6144, 4096);
    add("Llama 8B", 8192, 4096, 4096);
    add("Llama 8B", 8192, 28672, 4096);
    add("Llama 8B", 8192, 4096, 14336);
    add("GPT 1.5B", 8192, 4800, 1600);
    add("GPT 1.5B", 8192, 1600, 1600);
    add("GPT 1.5B", 8192, 6400, 1600);
    add("GPT 1.5B", 8192, 1600, 6400);
    for (int64_t n = 1024; n <= 32768; n *= 2) add_square(cases, n, operands);
  } else {
    add("GPT-2 124M", 1024, 2304, 768);
    add("GPT-2 124M", 1024, 3072, 768);
    add("GPT-2 124M", 1024, 768, 3072);
    for (int64_t n = 256; n <= 2048; n *= 2) add_square(cases, n, operands);
  }
  std::erase_if(cases, [&](const GemmCase& gemm) {
    const GemmWorkload& w = gemm.workload;
    const int64_t bytes = (w.m * w.k + w.n * w.k) * static_cast<int64_t>(size_bytes(operands)) +
                          w.m * w.n * static_cast<int64_t>(size_bytes(w.result()));
    return memory_bytes > 0 && bytes > memory_bytes / 2;
  });
  return cases;
}

std::vector<GemmCase> suite_gemm_cases(const Device& device) {
  const bool is_gpu = device.target().is_gpu();
  std::vector<GemmCase> cases;
  const auto add = [&](DType operands, const std::vector<std::string>& shapes = {}) {
    std::vector<GemmCase> standard = standard_gemm_cases(is_gpu, operands, device.memory_limit());
    std::erase_if(standard, [&](const GemmCase& one) {
      // 8192x8192x8192 is a square too.
      return !shapes.empty() &&
             (one.group == "squares" || std::find(shapes.begin(), shapes.end(), one.workload.name()) == shapes.end());
    });
    cases.insert(cases.end(), standard.begin(), standard.end());
  };
  add(DType::kBF16);
  if (!is_gpu) {
    add(DType::kF32);
    return cases;
  }
  add(DType::kF8E4M3);
  if (device.target().preferred_sizes().f8_blocks) {
    for (GemmCase one : standard_gemm_cases(is_gpu, DType::kF8E4M3, device.memory_limit())) {
      if (one.group != "Llama 70B") continue;
      one.workload.block_scales = true;
      cases.push_back(one);
    }
  }
  add(DType::kF16, {"8192x8192x8192", "16384x8192x7168", "8192x28672x4096"});
  add(DType::kF32, {"8192x8192x8192"});
  if (device.target().architecture().has_tf32_matrix) {
    GemmCase rounded = cases.back();
    rounded.workload.tf32 = true;
    cases.push_back(rounded);
  }
  return cases;
}

std::vector<Measurement> run_gemm(Device& device, const GemmCase& gemm,
                                  const std::vector<std::unique_ptr<GemmProvider>>& providers,
                                  const GemmOptions& options, const std::optional<DevicePeak>& peak,
                                  std::vector<std::string>& skipped) {
  const GemmWorkload& w = gemm.workload;
  Tensor a, b;
  try {
    const auto draw = [&](bool along_k, int64_t lines, uint64_t seed) {
      return draw_inputs(along_k ? std::vector{lines, w.k} : std::vector{w.k, lines}, w.operands, options.inputs, seed);
    };
    a = draw(!w.a_along_m, w.m, 1);
    b = draw(!w.b_along_n, w.n, 2);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kResource) throw;
    skipped.push_back(fmt::format("{} {}: {}", w.name(), w.type(), error.what()));
    return {};
  }
  void* const a_data = a.buffer().data();
  void* const b_data = b.buffer().data();
  const GemmReference reference(device, w, a_data, b_data);

  std::vector<Measurement> measurements;
  std::vector<std::unique_ptr<PreparedGemm>> prepared;
  std::vector<DeviceBuffer> results;
  std::vector<TimedWork> work;
  for (const auto& provider : providers) {
    const size_t result_bytes = static_cast<size_t>(w.m * w.n) * size_bytes(w.result());
    try {
      results.push_back(device.allocate(result_bytes, true));
      prepared.push_back(provider->prepare(w, a_data, b_data, results.back().data()));
      prepared.back()->run();
    } catch (const Error& error) {
      prepared.resize(work.size());
      results.resize(work.size());
      // Not the shape: most reasons hold for all of them, and are printed once.
      skipped.push_back(fmt::format("{}, {}: {}", provider->name(), w.type(), error.what()));
      continue;
    }
    work.push_back([&gemm = *prepared.back()] { gemm.run(); });
    Measurement& measurement = measurements.emplace_back();
    measurement.benchmark = "gemm";
    measurement.group = gemm.group;
    measurement.workload = w.name() + inputs_suffix(options.inputs);
    if (w.m == w.n && w.n == w.k) measurement.size = static_cast<double>(w.n);
    measurement.dtype = w.type();
    measurement.provider = provider->name();
    measurement.work = w.flops();
    measurement.unit = "TFLOP/s";
    if (peak) {
      measurement.peak = peak->tflops(w.type());
      measurement.peak_source = peak->source;
    }
    measurement.details["inputs"] = describe_inputs(options.inputs);
    measurement.details["layout"] = w.layout();
    reference.check(device, results.back().data(), measurement);
  }
  std::vector<TimedRounds> timed = time_alternately(device, work, options.timing);
  for (size_t i = 0; i < measurements.size(); ++i) {
    measurements[i].rounds = std::move(timed[i].seconds);
    measurements[i].clock_mhz = std::move(timed[i].clock_mhz);
    const bool was_correct = measurements[i].correct;
    reference.check(device, results[i].data(), measurements[i]);
    measurements[i].correct &= was_correct;
  }
  return measurements;
}

}  // namespace causeway::bench
