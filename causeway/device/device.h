// What the program asks of a device, whatever its vendor: memory, kernels, launches. One in-order queue of work; a
// launch may return before it has run. Pointers are addresses in the device's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "causeway/device/target.h"

namespace causeway {

// A piece of device memory, shared by reference and released with the last one.
struct DeviceBuffer {
  std::shared_ptr<std::byte> memory;
  size_t bytes = 0;
  std::byte* data() const { return memory.get(); }
};

// A kernel's entry point; valid while its module lives. What it points to is the device's business.
using DeviceKernel = const void*;

// A loaded image.
class DeviceModule {
 public:
  virtual ~DeviceModule() = default;
  // Throws Error(kNotFound) when the image exports no such function.
  virtual DeviceKernel kernel(const std::string& name) const = 0;
};

struct DeviceLaunch {
  DeviceKernel kernel = nullptr;
  std::span<void* const> buffers;
  std::span<const int64_t> sizes;
  int64_t task_count = 0;
  int64_t scratch_bytes = 0;  // per worker
};

class Device {
 public:
  virtual ~Device() = default;

  virtual std::string name() const = 0;
  virtual const Target& target() const = 0;

  // Contents are undefined unless zeroed. Zero bytes give a null buffer. Throws Error(kResource) naming the size.
  virtual DeviceBuffer allocate(size_t bytes, bool zeroed = false) = 0;
  virtual void copy_to_device(void* to, const void* host, size_t bytes) = 0;
  // Waits for the work launched before it.
  virtual void copy_to_host(void* host, const void* from, size_t bytes) = 0;
  virtual void copy_on_device(void* to, const void* from, size_t bytes) = 0;

  virtual std::shared_ptr<DeviceModule> load(std::string_view image) = 0;
  virtual void launch(const DeviceLaunch& launch) = 0;
  virtual void synchronize() = 0;

  virtual int64_t bytes_in_use() const = 0;
  virtual int64_t peak_bytes() const = 0;
};

}  // namespace causeway
