// Emulated kernel text, compiled and loaded into this process.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "causeway/device/cpu/cpu_module.h"
#include "causeway/device/device.h"
#include "causeway/device/emulator/source_lines.h"

namespace causeway::device {

class EmulatorModule;

// What a DeviceKernel of the emulator points to.
struct EmulatedKernel {
  std::string name;
  void (*entry)(const void* arguments) = nullptr;  // called once by every thread, on its fiber
  const EmulatorModule* module = nullptr;
};

class EmulatorModule : public DeviceModule {
 public:
  // Throws Error(kCorrupt) when the image cannot be loaded or was compiled for something else.
  EmulatorModule(std::string_view image, const std::string& device);

  DeviceKernel kernel(const std::string& name) const override;

  uintptr_t begin() const { return begin_; }
  // The image's own data and code.
  bool contains(uintptr_t address) const { return address >= begin_ && address < end_; }
  // " at causeway/kernels/gpu/reduce.h:33" for an offset in the image, or empty.
  std::string place(uint64_t offset) const;

 private:
  CpuModule module_;
  SourceLines lines_;
  uintptr_t begin_ = 0;
  uintptr_t end_ = 0;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::unique_ptr<EmulatedKernel>> kernels_;
};

}  // namespace causeway::device
