#include "causeway/cli/program_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "causeway/base/console.h"
#include "causeway/base/error.h"
#include "causeway/codegen/compile/compiler.h"
#include "causeway/device/device_peaks.h"
#include "causeway/plan/program_work.h"

namespace causeway::cli {
namespace {

// "kernel 12"; of a collective, which has no text, "exchange".
std::string name_of(const KernelReport& report) {
  return report.source ? fmt::format("kernel {}", *report.source) : "exchange";
}

// A median; 0 where there is no memory for a copy.
double time_copies(Device& device) {
  constexpr size_t kBytes = size_t{256} << 20;
  constexpr int kCopies = 7;
  try {
    const DeviceBuffer from = device.allocate(kBytes, true), to = device.allocate(kBytes, true);
    // One behind the other, so that none begins with the wait for its launch.
    std::vector<std::shared_ptr<DeviceMoment>> moments = {device.mark()};
    for (int i = 0; i < kCopies; ++i) {
      device.copy_on_device(to.data(), from.data(), kBytes);
      moments.push_back(device.mark());
    }
    std::vector<double> seconds;
    for (size_t i = 0; i < kCopies; ++i) seconds.push_back(device.seconds_between(*moments[i], *moments[i + 1]));
    std::nth_element(seconds.begin(), seconds.begin() + kCopies / 2, seconds.end());
    return 2 * static_cast<double>(kBytes) / seconds[kCopies / 2];
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kResource) throw;
    return 0;
  }
}

// `seconds` and `work`: of each use of a kernel, in the order of the reports.
std::vector<KernelTotal> total_by_kernel(const std::vector<KernelReport>& reports, const std::vector<double>& seconds,
                                         const std::vector<plan::KernelWork>& work, double copy_bytes_per_second,
                                         const std::optional<DevicePeak>& peak) {
  CAUSEWAY_CHECK(reports.size() == seconds.size() && reports.size() == work.size(),
                 "{} kernels, {} times and the work of {}", reports.size(), seconds.size(), work.size());
  std::map<std::string, KernelTotal> by_name;
  for (size_t i = 0; i < reports.size(); ++i) {
    KernelTotal& total = by_name[name_of(reports[i])];
    total.name = name_of(reports[i]);
    total.kind = reports[i].kind;
    total.members = reports[i].members;
    total.launches += 1;
    total.seconds += seconds[i];
    total.bytes += work[i].bytes;
    total.flops += work[i].flops;
    const double copying = copy_bytes_per_second > 0 ? work[i].bytes / copy_bytes_per_second : 0;
    if (work[i].flops == 0) {
      total.floor_seconds += copying;
    } else if (const auto tflops = peak ? peak->tflops(work[i].operand) : std::nullopt) {
      total.floor_seconds += std::max(copying, work[i].flops / (*tflops * 1e12));
    }
  }
  std::vector<KernelTotal> ordered;
  for (auto& [name, total] : by_name) ordered.push_back(std::move(total));
  std::sort(ordered.begin(), ordered.end(),
            [](const KernelTotal& a, const KernelTotal& b) { return a.seconds > b.seconds; });
  return ordered;
}

}  // namespace

void print_program(const Program& program, const Target& target, const ProgramDetail& detail) {
  const std::vector<KernelReport> reports = program.kernel_reports();
  std::map<std::string, int> kinds;
  for (const KernelReport& report : reports) ++kinds[report.kind];
  const auto launches =
      std::count_if(reports.begin(), reports.end(), [](const auto& report) { return report.source.has_value(); });
  output("\nprogram: {} launches of {} distinct kernels\n", launches, program.sources().size());
  for (const auto& [kind, count] : kinds) output("  {:<28}{}\n", kind, count);
  if (detail.program)
    for (size_t i = 0; i < reports.size(); ++i)
      output("  {:>4}  {:<11}{:<28}{:<32}{}\n", i, name_of(reports[i]), reports[i].kind, reports[i].scope,
             reports[i].members);
  if (detail.kernels || detail.assembly)
    for (size_t i = 0; i < program.sources().size(); ++i)
      output("\n--- kernel {} ---\n{}", i,
             detail.assembly ? compile_to_assembly(program.sources()[i], target) : program.sources()[i]);
}

std::vector<double> median_kernel_seconds(const std::function<std::vector<double>()>& run) {
  constexpr int kRuns = 5;
  std::vector<std::vector<double>> samples;
  for (int i = 0; i <= kRuns; ++i) {
    const std::vector<double> seconds = run();
    samples.resize(seconds.size());
    for (size_t k = 0; k < seconds.size() && i > 0; ++k) samples[k].push_back(seconds[k]);
  }
  std::vector<double> medians;
  for (std::vector<double>& kernel : samples) {
    std::nth_element(kernel.begin(), kernel.begin() + kRuns / 2, kernel.end());
    medians.push_back(kernel[kRuns / 2]);
  }
  return medians;
}

KernelTimes kernel_times(const Program& program, Device& device, const std::vector<double>& seconds,
                         const SymbolBindings& sizes) {
  const double copies = time_copies(device);
  return {total_by_kernel(program.kernel_reports(), seconds,
                          plan::work_of_kernels(program.graph(), device.target(), sizes, program.has_fixed_order()),
                          copies, find_device_peak(device.name())),
          copies};
}

void print_kernel_times(const KernelTimes& times, const std::string& what) {
  double all = 0;
  for (const KernelTotal& kernel : times.kernels) all += kernel.seconds;
  output("\ntime of {}: {:.4g} ms in kernels (medians)\n", what, all * 1e3);
  output(
      "GB/s: of what a kernel reads and writes, each tensor once. floor: the share of its time that a copy of as many\n"
      "bytes takes ({}), or the datasheet's peak for the GEMMs, where that is more and known\n",
      times.copy_bytes_per_second > 0 ? fmt::format("{:.0f} GB/s on this device", times.copy_bytes_per_second * 1e-9)
                                      : "not known: no memory for one");
  output("  {:>7}  {:>12}  {:>7}{:<11}{:<28}{:>7}{:>9}{:>7}  computes\n", "time", "", "", "", "", "GB/s", "TFLOP/s",
         "floor");
  for (const KernelTotal& kernel : times.kernels)
    output("  {:>5.1f} %  {:>9.3f} ms  {:>4} x {:<11}{:<28}{:>7.0f}{:>9}{:>7}  {}\n", 100 * kernel.seconds / all,
           kernel.seconds * 1e3, kernel.launches, kernel.name, kernel.kind, kernel.bytes / kernel.seconds * 1e-9,
           kernel.flops > 0 ? fmt::format("{:.4g}", kernel.flops / kernel.seconds * 1e-12) : "",
           kernel.floor_seconds > 0 ? fmt::format("{:.0f} %", 100 * kernel.floor_seconds / kernel.seconds) : "",
           kernel.members);
}

nlohmann::ordered_json kernel_times_json(const KernelTimes& times) {
  nlohmann::ordered_json kernels = nlohmann::ordered_json::array();
  for (const KernelTotal& kernel : times.kernels) {
    nlohmann::ordered_json& entry = kernels.emplace_back();
    entry = {{"name", kernel.name},       {"kind", kernel.kind},   {"launches", kernel.launches},
             {"seconds", kernel.seconds}, {"bytes", kernel.bytes}, {"flops", kernel.flops}};
    if (kernel.floor_seconds > 0) entry["floor_seconds"] = kernel.floor_seconds;
    entry["computes"] = kernel.members;
  }
  nlohmann::ordered_json json = {{"kernels", std::move(kernels)}};
  if (times.copy_bytes_per_second > 0) json["copy_bytes_per_second"] = times.copy_bytes_per_second;
  return json;
}

}  // namespace causeway::cli
