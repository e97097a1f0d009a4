// Tensor maps as NVIDIA's driver encodes them.
#pragma once

#include "causeway/device/cuda/cuda_driver.h"
#include "causeway/device/gpu_queues.h"

namespace causeway::device {

// Of the tensor in that buffer of the device. A map that the driver refuses is a fault of the program.
TensorMapBytes encode_cuda_tensor_map(const CudaDriver& driver, const TensorMap& map, void* buffer);

}  // namespace causeway::device
