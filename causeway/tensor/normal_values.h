// Normal numbers of mean 0 in a tensor's memory, made there by the device: a pure function of (seed, stream, index in
// the whole tensor), the same bits on every device and for every number of ranks. kernels/normal_values.h has the
// method.
#pragma once

#include <cstdint>

#include "causeway/tensor/tensor.h"

namespace causeway::tensor {

struct NormalValues {
  uint64_t seed = 0;
  uint64_t stream = 0;  // which of the seed's sequences
  double standard_deviation = 1;
};

// Overwrites an f32 tensor that holds values, or the rank's part of one that is cut. Queued: whatever uses the tensor
// comes after it.
void fill_normal(Tensor& tensor, const NormalValues& values);

}  // namespace causeway::tensor
