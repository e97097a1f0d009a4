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
  // What kernels are compiled for; empty: the best that the GPU runs. "sm_80" runs on every newer GPU too, whose driver
  // compiles its PTX, without what newer architectures have; "sm_90a" on 9.0 alone.
  std::string architecture = {};
};

class CudaDevice : public GpuDevice {
 public:
  // Throws Error: kNotFound without a driver or such a GPU, kUnsupported for an old driver, for a GPU that
  // kernels are not made for and for one that does not run those of `architecture`, kResource when the GPU is taken or
  // full. The hint says what to do.
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
