// An NVIDIA GPU. The driver (libcuda, version 525 / CUDA 12.0 or newer) is all that is needed, at run time alone.
#pragma once

#include <memory>
#include <string>

#include "causeway/device/cuda/cuda_queues.h"
#include "causeway/device/gpu_device.h"

namespace causeway::device {

struct CudaOptions {
  int index = 0;  // as the driver counts: CUDA_VISIBLE_DEVICES applies
  std::string library = "libcuda.so.1";
};

class CudaDevice : public GpuDevice {
 public:
  // Throws Error: kNotFound without a driver or such a GPU, kUnsupported for an old driver or an architecture that
  // kernels are not made for, kResource when the GPU is taken or full. The hint says what to do.
  explicit CudaDevice(const CudaOptions& options = {});

  // How many GPUs the driver shows. Throws as the constructor does where there is no usable driver.
  static int count(const std::string& library = CudaOptions().library);

 private:
  struct Opened {
    std::shared_ptr<CudaQueues> queues;
    std::string target;
    GpuInfo info;
  };
  static Opened open(const CudaOptions& options);
  explicit CudaDevice(const Opened& opened);
};

}  // namespace causeway::device
