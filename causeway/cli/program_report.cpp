#include "causeway/cli/program_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "causeway/base/console.h"
#include "causeway/codegen/compile/compiler.h"

namespace causeway::cli {
namespace {

// "kernel 12"; of a collective, which has no text, "exchange".
std::string name_of(const Program::KernelReport& report) {
  return report.source ? fmt::format("kernel {}", *report.source) : "exchange";
}

}  // namespace

void print_program(const Program& program, const Target& target, const ProgramDetail& detail) {
  const std::vector<Program::KernelReport> reports = program.kernel_reports();
  std::map<std::string, int> kinds;
  for (const Program::KernelReport& report : reports) ++kinds[report.kind];
  const auto launches =
      std::count_if(reports.begin(), reports.end(), [](const auto& report) { return report.source.has_value(); });
  output("\nprogram: {} launches of {} distinct kernels\n", launches, program.sources().size());
  for (const auto& [kind, count] : kinds) output("  {:<24}{}\n", kind, count);
  if (detail.program)
    for (size_t i = 0; i < reports.size(); ++i)
      output("  {:>4}  {:<11}{:<20}{:<32}{}\n", i, name_of(reports[i]), reports[i].kind, reports[i].scope,
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

void print_kernel_times(const Program& program, const std::vector<double>& seconds, const std::string& what) {
  const std::vector<Program::KernelReport> reports = program.kernel_reports();
  struct Total {
    double seconds = 0;
    int launches = 0;
    const Program::KernelReport* example = nullptr;
  };
  std::map<std::string, Total> by_source;
  double all = 0;
  for (size_t i = 0; i < reports.size(); ++i) {
    Total& total = by_source[name_of(reports[i])];
    total.seconds += seconds[i];
    total.launches += 1;
    total.example = &reports[i];
    all += seconds[i];
  }
  std::vector<std::pair<std::string, Total>> ordered(by_source.begin(), by_source.end());
  std::sort(ordered.begin(), ordered.end(),
            [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  output("\ntime of {}: {:.4g} ms in kernels (medians)\n", what, all * 1e3);
  for (const auto& [name, total] : ordered)
    output("  {:>5.1f} %  {:>9.3f} ms  {:>4} x {:<11}{:<20}{}\n", 100 * total.seconds / all, total.seconds * 1e3,
           total.launches, name, total.example->kind, total.example->members);
}

}  // namespace causeway::cli
