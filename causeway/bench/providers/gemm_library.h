// What the providers share that open somebody's library at run time: where it is looked for, which device it needs, and
// how to say that it is not there.
#pragma once

#include <string>
#include <vector>

#include "causeway/bench/providers/gemm_provider.h"
#include "causeway/device/cpu/cpu_device.h"
#include "causeway/device/gpu_device.h"
#include "causeway/device/vendor_library.h"

namespace causeway::bench {

struct GemmLibrary {
  std::string provider;                  // as it is asked for: "cublaslt"
  std::string product;                   // "cuBLASLt"
  std::vector<std::string> files;        // what the system's loader is asked for, the first that opens
  std::vector<std::string> in_packages;  // paths below a Python installation's packages, tried after those
  std::string install;                   // a sentence: what to install
};

// Opens `file`, or where that is empty the library wherever it usually is. Throws Error(kNotFound) that says what to
// install.
VendorLibrary open_gemm_library(const GemmLibrary& library, const std::string& file);

// The device as what the library works on. Throw Error(kUnsupported) where it is another.
GpuDevice& require_gpu(Device& device, Target::Family family, const GemmLibrary& library);
CpuDevice& require_processor(Device& device, const GemmLibrary& library);

// There is no such GEMM, or none for this type of operands.
[[noreturn]] void throw_no_gemm(const GemmLibrary& library, const std::string& what);
[[noreturn]] void throw_no_gemm(const GemmLibrary& library, DType operands);

// Throws as throw_no_gemm() does when a call of the library was not successful.
void check_call(const GemmLibrary& library, int status, const char* doing);

// The number of the type in cudaDataType and hipDataType, which agree. Throws Error(kUnsupported) for types that are
// not multiplied.
int gpu_library_type(const GemmLibrary& library, DType dtype);

// A handle of a library, released by its function.
class LibraryHandle {
 public:
  explicit LibraryHandle(int (*release)(void*)) : release_(release) {}
  ~LibraryHandle() {
    if (handle_ != nullptr) release_(handle_);
  }
  LibraryHandle(const LibraryHandle&) = delete;
  LibraryHandle& operator=(const LibraryHandle&) = delete;
  void** out() { return &handle_; }
  void* get() const { return handle_; }

 private:
  int (*release_)(void*);
  void* handle_ = nullptr;
};

}  // namespace causeway::bench
