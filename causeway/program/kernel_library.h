// Kernels of one device: compiled through the cache, loaded once, shared by all programs that use them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "causeway/codegen/compile/kernel_cache.h"
#include "causeway/device/device.h"

namespace causeway::program {

class KernelLibrary {
 public:
  // What is made of a kernel's text before it is compiled: tests plant faults with it.
  using Rewrite = std::function<std::string(const std::string& source)>;

  KernelLibrary(Device& device, std::shared_ptr<KernelCache> cache, Rewrite rewrite = {})
      : device_(device), cache_(std::move(cache)), rewrite_(std::move(rewrite)) {}

  // Modules in the order of `sources`: compiled where they are not cached, and loaded, in parallel. Thread-safe.
  std::vector<std::shared_ptr<DeviceModule>> load(const std::vector<std::string>& sources);

  // Images in the order of `sources`, as compile_module() gives them.
  std::vector<KernelImage> images(const std::vector<std::string>& sources) {
    return cache_->get_or_compile_all(sources, device_.target());
  }

  const KernelCache& cache() const { return *cache_; }
  const Target& target() const { return device_.target(); }

 private:
  Device& device_;
  std::shared_ptr<KernelCache> cache_;
  Rewrite rewrite_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<DeviceModule>> modules_;  // by source as it is compiled
};

}  // namespace causeway::program
