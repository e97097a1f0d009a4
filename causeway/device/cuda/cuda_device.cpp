#include "causeway/device/cuda/cuda_device.h"

#include <array>
#include <cstdint>

#include "causeway/base/error.h"

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

// The architecture whose kernels run on a GPU of this compute capability.
std::string target_for(int major, int minor, const std::string& product, const std::string& where) {
  if (major == 9 && minor == 0) return "sm_90a";
  if (major == 8) return "sm_80";
  throw Error(ErrorKind::kUnsupported,
              fmt::format("{} has compute capability {}.{}, which kernels are not made for", product, major, minor),
              where, "Supported: 9.0 (H100, H200) and 8.x (A100 and its generation).");
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
  opened.target = target_for(major, minor, product.data(), name);
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
