// PTX as a library in NVIDIA's driver.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "causeway/device/cuda/cuda_driver.h"

namespace causeway::device {

// The library, and where the driver's assembler writes: it may do so again when another context needs the library. So
// it stays where it is until the library is unloaded, which is the caller's to do.
class CudaImage {
 public:
  CudaImage() = default;
  CudaImage(const CudaImage&) = delete;
  CudaImage& operator=(const CudaImage&) = delete;

  // PTX to machine code for the current context's GPU, by the driver's assembler or from the driver's cache. What the
  // assembler says of registers and spills goes to the debug log, and what it could not do well is a warning, when it
  // runs. Throws Error(kInvalidArgument) with its messages, and Error(kUnsupported) where the driver is too old;
  // returns any other failure.
  CudaDriver::Result load(const CudaDriver& driver, std::string_view image, const std::string& device);
  void* library() const { return library_; }

 private:
  static constexpr size_t kLogBytes = 8 << 10;

  void* library_ = nullptr;
  // One byte more than the driver knows of ends the text.
  std::string info_ = std::string(kLogBytes + 1, '\0'), error_ = std::string(kLogBytes + 1, '\0');
  std::array<CudaDriver::JitOption, 5> names_ = {CudaDriver::kInfoLog, CudaDriver::kInfoLogBytes, CudaDriver::kErrorLog,
                                                 CudaDriver::kErrorLogBytes, CudaDriver::kLogVerbose};
  std::array<void*, 5> values_ = {info_.data(), reinterpret_cast<void*>(kLogBytes), error_.data(),
                                  reinterpret_cast<void*>(kLogBytes), reinterpret_cast<void*>(uintptr_t{1})};
};

}  // namespace causeway::device
