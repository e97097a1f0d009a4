// Kernels of one device: compiled through the cache, loaded once, shared by all programs that use them.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "causeway/codegen/kernel_cache.h"
#include "causeway/device/device.h"

namespace causeway {

class KernelLibrary {
 public:
  KernelLibrary(Device& device, std::shared_ptr<KernelCache> cache) : device_(device), cache_(std::move(cache)) {}

  // Modules in the order of `sources`, compiled in parallel where they are not cached. Thread-safe.
  std::vector<std::shared_ptr<DeviceModule>> load(const std::vector<std::string>& sources);

  const KernelCache& cache() const { return *cache_; }

 private:
  Device& device_;
  std::shared_ptr<KernelCache> cache_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<DeviceModule>> modules_;  // by source
};

}  // namespace causeway
