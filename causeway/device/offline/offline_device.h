// A device that is not at hand: kernels are compiled for its target and memory is planned, nothing runs. It is what
// `causeway explain` uses for hardware that this machine does not have.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "causeway/device/device.h"
#include "causeway/device/target.h"

namespace causeway::device {

class OfflineDevice : public Device {
 public:
  explicit OfflineDevice(Target target) : target_(std::move(target)) {}

  std::string name() const override { return target_.processor + " (not here)"; }
  const Target& target() const override { return target_; }

  // Addresses that nothing may read or write; bytes are only counted.
  DeviceBuffer allocate(size_t bytes, bool zeroed = false) override;
  // Likewise, and not among bytes_in_use().
  HostBuffer allocate_host(size_t bytes, bool zeroed = false) override;
  void copy_to_device(void* to, const void* host, size_t bytes) override {}
  // Reading, like launching, throws Error(kUnsupported).
  void copy_to_host(void* host, const void* from, size_t bytes) override { refuse(); }
  // Nothing is there, and nothing gets there.
  void queue_copy_to_host(void* host, const void* from, size_t bytes, DeviceQueue queue) override {}
  void copy_on_device(void* to, const void* from, size_t bytes, DeviceQueue queue = kComputeQueue) override {
    refuse();
  }
  void fill_with_zeros(void* memory, size_t bytes) override { refuse(); }

  std::shared_ptr<DeviceModule> load(std::string_view image) override;
  void launch(const DeviceLaunch& launch) override { refuse(); }
  void synchronize() override {}

  int64_t bytes_in_use() const override { return *bytes_; }
  int64_t peak_bytes() const override { return peak_; }

 private:
  [[noreturn]] void refuse() const;

  Target target_;
  std::shared_ptr<int64_t> bytes_ = std::make_shared<int64_t>(0);
  int64_t peak_ = 0;
  uintptr_t next_address_ = uintptr_t{1} << 44;
};

}  // namespace causeway::device
