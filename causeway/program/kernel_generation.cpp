#include "causeway/program/kernel_generation.h"

#include <algorithm>

#include "causeway/base/thread_pool.h"

namespace causeway::program {

void for_each_kernel(size_t count, const std::function<void(size_t kernel)>& work) {
  // Fewer are done sooner than threads begin.
  constexpr size_t kOfThread = 8;
  ThreadPool pool(std::clamp(static_cast<int>(count / kOfThread), 1, available_processors()));
  pool.run(static_cast<int64_t>(count), [&](int64_t task, int) { work(static_cast<size_t>(task)); });
}

std::vector<GeneratedKernel> generate_kernels(const Graph& graph, const FusionResult& fusion, const Target& target) {
  std::vector<GeneratedKernel> kernels(fusion.kernels.size());
  for_each_kernel(kernels.size(), [&](size_t k) {
    kernels[k] = generate_kernel(graph, fusion.materialized, fusion.kernels[k], target);
  });
  return kernels;
}

}  // namespace causeway::program
