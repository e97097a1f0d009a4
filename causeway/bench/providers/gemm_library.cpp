#include "causeway/bench/providers/gemm_library.h"

#include <fmt/format.h>

#include "causeway/base/error.h"
#include "causeway/base/python_packages.h"

namespace causeway::bench {

VendorLibrary open_gemm_library(const GemmLibrary& library, const std::string& file) {
  std::vector<std::string> names = {file};
  if (file.empty()) {
    names = library.files;
    const std::vector<std::string> packaged = python_package_files(library.in_packages);
    names.insert(names.end(), packaged.begin(), packaged.end());
  }
  return VendorLibrary(names, library.provider,
                       fmt::format("{} --library {}=FILE names one elsewhere.", library.install, library.provider),
                       library.product);
}

GpuDevice& require_gpu(Device& device, Target::Family family, const GemmLibrary& library) {
  auto* gpu = dynamic_cast<GpuDevice*>(&device);
  if (gpu == nullptr || device.target().family != family)
    throw Error(ErrorKind::kUnsupported,
                fmt::format("{} runs on {} GPUs alone", library.product,
                            family == Target::Family::kNvptx ? "NVIDIA's" : "AMD's"),
                library.provider, fmt::format("Leave it out for {}.", device.name()));
  return *gpu;
}

CpuDevice& require_processor(Device& device, const GemmLibrary& library) {
  auto* processor = dynamic_cast<CpuDevice*>(&device);
  if (processor == nullptr)
    throw Error(ErrorKind::kUnsupported, fmt::format("{} is measured on the processor alone", library.product),
                library.provider, fmt::format("Leave it out for {}.", device.name()));
  return *processor;
}

void throw_no_gemm(const GemmLibrary& library, const std::string& what) {
  throw Error(ErrorKind::kUnsupported, what, library.provider, "The other providers are measured.");
}

void throw_no_gemm(const GemmLibrary& library, DType operands) {
  throw_no_gemm(library, fmt::format("{} does not multiply {}", library.product, dtype_name(operands)));
}

void check_call(const GemmLibrary& library, int status, const char* doing) {
  if (status != 0) throw_no_gemm(library, fmt::format("{} could not {} (status {})", library.product, doing, status));
}

int gpu_library_type(const GemmLibrary& library, DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return 0;
    case DType::kF16:
      return 2;
    case DType::kBF16:
      return 14;
    case DType::kF8E4M3:
      return 28;
    case DType::kF8E5M2:
      return 29;
    default:
      throw_no_gemm(library, dtype);
  }
}

}  // namespace causeway::bench
