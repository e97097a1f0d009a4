#include "causeway/program/kernel_library.h"

namespace causeway {

std::vector<std::shared_ptr<DeviceModule>> KernelLibrary::load(const std::vector<std::string>& sources) {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> missing;
  for (const std::string& source : sources)
    if (!modules_.contains(source)) missing.push_back(source);
  const ImageFinisher finisher{device_.finisher(),
                               [this](std::string image) { return device_.finish_image(std::move(image)); }};
  const std::vector<KernelImage> images = cache_->get_or_compile_all(missing, device_.target(), 0, finisher);
  for (size_t i = 0; i < missing.size(); ++i)
    if (!modules_.contains(missing[i])) modules_[missing[i]] = device_.load(*images[i]);
  std::vector<std::shared_ptr<DeviceModule>> modules;
  modules.reserve(sources.size());
  for (const std::string& source : sources) modules.push_back(modules_.at(source));
  return modules;
}

}  // namespace causeway
