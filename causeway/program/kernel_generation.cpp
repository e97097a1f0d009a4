#include "causeway/program/kernel_generation.h"

#include <algorithm>

#include "causeway/base/thread_pool.h"

namespace causeway::program {

std::vector<GeneratedKernel> generate_kernels(const Graph& graph, const FusionResult& fusion, const Target& target) {
  // Fewer are written sooner than threads begin.
  constexpr int kOfThread = 8;
  std::vector<GeneratedKernel> kernels(fusion.kernels.size());
  const int threads = static_cast<int>(fusion.kernels.size()) / kOfThread;
  ThreadPool pool(std::clamp(threads, 1, available_processors()));
  pool.run(static_cast<int64_t>(kernels.size()), [&](int64_t task, int) {
    const auto k = static_cast<size_t>(task);
    kernels[k] = generate_kernel(graph, fusion.materialized, fusion.kernels[k], target);
  });
  return kernels;
}

}  // namespace causeway::program
