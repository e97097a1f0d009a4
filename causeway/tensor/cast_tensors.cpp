#include "causeway/tensor/cast_tensors.h"

#include "causeway/tensor/operand.h"
#include "causeway/tensor/shape_ops.h"

namespace causeway::tensor {

Tensor CastTensors::cast(const Tensor& tensor, DType dtype, bool transposed) {
  const auto [found, is_new] = entries_.try_emplace({tensor.state().get(), dtype, transposed});
  if (is_new) {
    const Tensor narrow = tensor::cast(tensor, dtype);
    found->second = {tensor, transposed ? transpose(narrow) : narrow};
  }
  return found->second.cast;
}

}  // namespace causeway::tensor
