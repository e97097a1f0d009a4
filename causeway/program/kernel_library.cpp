#include "causeway/program/kernel_library.h"

#include <algorithm>

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
  std::vector<std::shared_ptr<DeviceModule>> loaded(missing.size());
  cache_->get_or_compile_all(missing, device_.target(), 0,
                             [&](size_t i, const KernelImage& image) { loaded[i] = device_.load(*image); });
  for (size_t i = 0; i < missing.size(); ++i) modules_[missing[i]] = loaded[i];
  std::vector<std::shared_ptr<DeviceModule>> modules;
  modules.reserve(sources.size());
  for (const std::string& source : sources) modules.push_back(modules_.at(source));
  return modules;
}

}  // namespace causeway::program
