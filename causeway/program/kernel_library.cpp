#include "causeway/program/kernel_library.h"

#include <algorithm>

#include "causeway/base/thread_pool.h"

namespace causeway::program {

std::vector<std::shared_ptr<DeviceModule>> KernelLibrary::load(const std::vector<std::string>& given) {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> sources = given;
  if (rewrite_)
    for (std::string& source : sources) source = rewrite_(source);
  std::vector<std::string> missing;
  for (const std::string& source : sources) {
    if (!modules_.contains(source) && std::find(missing.begin(), missing.end(), source) == missing.end())
      missing.push_back(source);
  }
  const std::vector<KernelImage> images = cache_->get_or_compile_all(missing, device_.target());
  std::vector<std::shared_ptr<DeviceModule>> loaded(missing.size());
  ThreadPool pool(std::clamp(static_cast<int>(missing.size()), 1, available_processors()));
  pool.run(static_cast<int64_t>(missing.size()), [&](int64_t task, int) {
    const auto i = static_cast<size_t>(task);
    loaded[i] = device_.load(*images[i]);
  });
  for (size_t i = 0; i < missing.size(); ++i) modules_[missing[i]] = loaded[i];
  std::vector<std::shared_ptr<DeviceModule>> modules;
  modules.reserve(sources.size());
  for (const std::string& source : sources) modules.push_back(modules_.at(source));
  return modules;
}

}  // namespace causeway::program
