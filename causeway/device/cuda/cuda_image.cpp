#include "causeway/device/cuda/cuda_image.h"

#include <algorithm>

#include "causeway/base/error.h"
#include "causeway/base/log.h"

namespace causeway::device {
namespace {

// Kernels are written so that the assembler has nothing to remark.
void warn_of_remarks(std::string_view log) {
  for (size_t from = 0; from < log.size();) {
    const size_t end = std::min(log.find('\n', from), log.size());
    const std::string_view line = log.substr(from, end - from);
    if (line.find("Potential Performance Loss") != std::string_view::npos)
      log_warning("a kernel is slower than it should be; please report it: {}", line);
    from = end + 1;
  }
}

}  // namespace

// Of the driver's ways to machine code: its linker (cuLink...) assembles each text as one unit of several, where
// setmaxnreg is ignored and wgmma instructions wait for one another (ptxas, C7504, C7509; `ptxas -c` does the same),
// and cuModuleLoadDataEx assembles one text at a time, whatever the threads.
CudaDriver::Result CudaImage::load(const CudaDriver& driver, std::string_view image, const std::string& device) {
  const std::string text(image);  // its end is marked by a zero
  CudaDriver::Result result = driver.library_load(&library_, text.c_str(), names_.data(), values_.data(),
                                                  static_cast<unsigned>(names_.size()), nullptr, nullptr, 0);
  // Some errors appear when the library becomes this context's.
  if (result == CudaDriver::kSuccess) {
    void* module = nullptr;
    result = driver.library_module(&module, library_);
    if (result != CudaDriver::kSuccess) driver.library_unload(library_);
  }
  if (result == CudaDriver::kUnsupportedPtxVersion) {
    throw Error(ErrorKind::kUnsupported,
                fmt::format("the NVIDIA driver (CUDA {}) is too old for these kernels", driver.version_text()), device,
                "Install version 525 (CUDA 12.0) or newer.");
  }
  // Whatever the driver calls it, what the assembler said tells more.
  if (result == CudaDriver::kInvalidPtx || (result != CudaDriver::kSuccess && error_[0] != 0)) {
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("the driver's assembler refused a kernel: {} ({})\n{}{}", driver.name_of(result),
                            driver.text_of(result), error_.c_str(), info_.c_str()),
                device, "Is it your own kernel, look at the lines named; otherwise please report it.");
  }
  if (result != CudaDriver::kSuccess) return result;
  if (info_[0] != 0) log_debug("{}: {}", device, info_.c_str());
  warn_of_remarks(info_.c_str());
  return result;
}

}  // namespace causeway::device
