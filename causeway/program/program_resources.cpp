#include "causeway/program/program_resources.h"

#include <algorithm>

#include "causeway/base/error.h"
#include "causeway/base/thread_pool.h"

namespace causeway::program {

std::vector<FunctionResources> program_resources(const Program& program, KernelLibrary& library) {
  std::vector<std::vector<FunctionResources>> by_source(program.sources().size());
  for (const KernelReport& report : program.kernel_reports()) {
    if (!report.source) continue;
    std::vector<FunctionResources>& functions = by_source[*report.source];
    for (const KernelPhase& phase : report.phases) {
      auto found = std::ranges::find(functions, phase.function, &FunctionResources::function);
      if (found == functions.end()) {
        functions.push_back(
            {*report.source, report.kind, phase.function, 0, phase.threads, phase.shared_bytes, {}, {}});
        found = functions.end() - 1;
      }
      ++found->launches;
    }
  }

  const Target& target = library.target();
  const std::vector<KernelImage> images = library.images(program.sources());
  ThreadPool pool;
  pool.run(static_cast<int64_t>(images.size()), [&](int64_t i, int) {
    const auto source = static_cast<size_t>(i);
    const std::optional<std::vector<KernelResources>> kernels = kernel_resources(*images[source], target);
    const std::optional<std::vector<FunctionCheck>> checks = check_code(*images[source], target);
    for (FunctionResources& function : by_source[source]) {
      if (kernels) {
        const auto found = std::ranges::find(*kernels, function.function, &KernelResources::kernel);
        CAUSEWAY_CHECK(found != kernels->end());
        function.resources = *found;
      }
      if (checks) {
        const auto found = std::ranges::find(*checks, function.function, &FunctionCheck::function);
        CAUSEWAY_CHECK(found != checks->end());
        function.code = *found;
      }
    }
  });

  std::vector<FunctionResources> all;
  for (const std::vector<FunctionResources>& functions : by_source)
    all.insert(all.end(), functions.begin(), functions.end());
  return all;
}

CodeCheckTotals code_check_totals(const std::vector<FunctionResources>& functions) {
  CodeCheckTotals totals;
  for (const FunctionResources& function : functions) {
    if (!function.code) continue;
    ++totals.functions;
    totals.functions_with_barriers += function.code->barriers > 0;
    totals.waits += function.code->waits;
    totals.instructions += function.code->instructions;
    totals.findings += static_cast<int>(function.code->findings.size());
  }
  return totals;
}

}  // namespace causeway::program
