#include "causeway/device/offline/offline_device.h"

#include <fmt/format.h>

#include <algorithm>

#include "causeway/base/error.h"

namespace causeway::device {
namespace {

// Any kernel can be named; none can be launched.
class OfflineModule : public DeviceModule {
 public:
  DeviceKernel kernel(const std::string& name) const override { return this; }
};

}  // namespace

DeviceBuffer OfflineDevice::allocate(size_t bytes, bool zeroed) {
  if (bytes == 0) return {};
  auto* address = reinterpret_cast<std::byte*>(next_address_);
  next_address_ += (bytes + 255) / 256 * 256;
  *bytes_ += static_cast<int64_t>(bytes);
  peak_ = std::max(peak_, *bytes_);
  const auto release = [use = bytes_, bytes](std::byte*) { *use -= static_cast<int64_t>(bytes); };
  return {std::shared_ptr<std::byte>(address, release), bytes};
}

HostBuffer OfflineDevice::allocate_host(size_t bytes, bool) {
  if (bytes == 0) return {};
  auto* address = reinterpret_cast<std::byte*>(next_address_);
  next_address_ += (bytes + 255) / 256 * 256;
  return {std::shared_ptr<std::byte>(address, [](std::byte*) {}), bytes};
}

std::shared_ptr<DeviceModule> OfflineDevice::load(std::string_view image) { return std::make_shared<OfflineModule>(); }

void OfflineDevice::refuse() const {
  throw Error(ErrorKind::kUnsupported,
              fmt::format("this machine has no {}: kernels can be compiled for it, not run", target_.processor),
              target_.text(), "Choose a device that `causeway doctor` lists as usable.");
}

}  // namespace causeway::device
