#include "causeway/device/cuda/cuda_device.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <ranges>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/device/gpu_architecture.h"

namespace causeway::device {
namespace {

constexpr int64_t kMaxBlocks = INT32_MAX;  // of a grid's x dimension

int device_count(const CudaDriver& driver) {
  int count = 0;
  const CudaDriver::Result result = driver.device_count(&count);
  if (result != CudaDriver::kSuccess || count == 0) {
    throw Error(ErrorKind::kNotFound, "the NVIDIA driver finds no GPU", "cuda",
                "Look whether `nvidia-smi` lists one, and whether CUDA_VISIBLE_DEVICES hides it.");
  }
  return count;
}

int attribute(const CudaDriver& driver, CudaDriver::DeviceAttribute attribute, int device) {
  int value = 0;
  driver.device_attribute(&value, attribute, device);
  return value;
}

// The architectures whose kernels run on a GPU of this compute capability (80: 8.0), the best first.
std::vector<std::string> architectures_for(int capability) {
  std::vector<std::string> architectures;
  for (const GpuArchitecture& architecture : std::views::reverse(gpu_architectures()))
    if (architecture.driver == "cuda" && capability >= architecture.first_capability &&
        (capability <= architecture.last_capability || architecture.runs_on_newer))
      architectures.emplace_back(architecture.processor);
  return architectures;
}

bool has_own_architecture(int capability) {
  return std::ranges::any_of(gpu_architectures(), [&](const GpuArchitecture& architecture) {
    return architecture.driver == "cuda" && capability >= architecture.first_capability &&
           capability <= architecture.last_capability;
  });
}

// The one that kernels are compiled for. Of GPUs that are not known nothing is compiled that was not asked for.
std::string target_for(int major, int minor, const std::string& product, const std::string& where,
                       const std::string& architecture) {
  const std::vector<std::string> architectures = architectures_for(10 * major + minor);
  const bool known = has_own_architecture(10 * major + minor);
  if (architecture.empty()) {
    if (known) return architectures.front();
    throw Error(
        ErrorKind::kUnsupported,
        fmt::format("{} has compute capability {}.{}, which kernels are not made for", product, major, minor), where,
        fmt::format("Supported: {}.{}", gpu_architecture_names(true, "cuda"),
                    architectures.empty()
                        ? ""
                        : fmt::format(" Older kernels run here with device_architecture={}.", architectures.front())));
  }
  if (std::ranges::find(architectures, architecture) != architectures.end()) return architecture;
  throw Error(ErrorKind::kUnsupported,
              fmt::format("{} has compute capability {}.{} and does not run kernels of {}", product, major, minor,
                          architecture),
              where,
              architectures.empty() ? std::string("Kernels need compute capability 8.0 or newer.")
                                    : fmt::format("Set device_architecture to {}{}.", fmt::join(architectures, " or "),
                                                  known ? ", or leave it out" : ""));
}

}  // namespace

CudaDevice::Opened CudaDevice::open(const CudaOptions& options) {
  const std::shared_ptr<const CudaDriver> driver = CudaDriver::open(options.library);
  const int count = device_count(*driver);
  const std::string name = fmt::format("cuda:{}", options.index);
  if (options.index < 0 || options.index >= count) {
    throw Error(ErrorKind::kNotFound, "there is no such GPU", name,
                count == 1 ? "The driver shows one: cuda:0."
                           : fmt::format("The driver shows {}: cuda:0 to cuda:{}.", count, count - 1));
  }
  int device = 0;
  std::array<char, 256> product{};
  if (driver->device_get(&device, options.index) != CudaDriver::kSuccess ||
      driver->device_name(product.data(), static_cast<int>(product.size()), device) != CudaDriver::kSuccess) {
    throw Error(ErrorKind::kResource, "the driver does not answer for this GPU", name,
                "`nvidia-smi` and the kernel's log (`dmesg`) say more.");
  }
  const int major = attribute(*driver, CudaDriver::kComputeCapabilityMajor, device);
  const int minor = attribute(*driver, CudaDriver::kComputeCapabilityMinor, device);
  Opened opened;
  opened.target = target_for(major, minor, product.data(), name, options.architecture);
  opened.info.architectures = architectures_for(10 * major + minor);
  opened.info.product = product.data();
  opened.info.processor = fmt::format("sm_{}{}", major, minor);
  opened.info.software = fmt::format("driver for CUDA {}", driver->version_text());
  opened.info.parallel_units = attribute(*driver, CudaDriver::kMultiprocessorCount, device);
  opened.info.shared_bytes = attribute(*driver, CudaDriver::kMaxSharedMemoryPerBlockOptin, device);
  opened.queues = std::make_shared<CudaQueues>(driver, name, device);
  return opened;
}

CudaDevice::CudaDevice(const CudaOptions& options) : CudaDevice(open(options)) {}

CudaDevice::CudaDevice(const Opened& opened)
    : GpuDevice(opened.queues, gpu_target(opened.target), opened.info, kMaxBlocks, INT64_MAX) {}

int CudaDevice::count(const std::string& library) { return device_count(*CudaDriver::open(library)); }

}  // namespace causeway::device
