// A compiled x86 image loaded into this process.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "causeway/device/device.h"

namespace causeway::device {

// Runs task `task` of a launch. `scratch` is aligned to 64 bytes and belongs to the worker for the length of the call.
using CpuKernel = void (*)(void* const* buffers, const int64_t* sizes, int64_t task, void* scratch);

class CpuModule : public DeviceModule {
 public:
  // `image` is a shared object (compile_module); it is copied into memory of its own, no file is involved. Throws
  // Error(kCorrupt) when it cannot be loaded, with the loader's reason.
  explicit CpuModule(std::string_view image);
  CpuModule(CpuModule&& other) noexcept;
  CpuModule& operator=(CpuModule&& other) noexcept;
  CpuModule(const CpuModule&) = delete;
  CpuModule& operator=(const CpuModule&) = delete;
  // Unloads: kernels of this module must not run any more.
  ~CpuModule() override;

  // A CpuKernel.
  DeviceKernel kernel(const std::string& name) const override;

 private:
  void* handle_ = nullptr;
};

}  // namespace causeway::device
