#include "causeway/tensor/cast_tensors.h"

#include "causeway/tensor/operand.h"
#include "causeway/tensor/shape_ops.h"

namespace causeway::tensor {

Tensor CastTensors::cast(const std::vector<Tensor>& tensors, DType dtype, bool transposed) {
  std::vector<const TensorState*> states;
  for (const Tensor& tensor : tensors) states.push_back(tensor.state().get());
  const auto [found, is_new] = entries_.try_emplace({std::move(states), dtype, transposed});
  if (is_new) {
    std::vector<Tensor> parts;
    for (const Tensor& tensor : tensors) {
      const Tensor narrow = tensor::cast(tensor, dtype);
      parts.push_back(transposed ? transpose(narrow) : narrow);
    }
    found->second = {tensors, parts.size() == 1 ? parts.front() : cat(parts, 0)};
  }
  return found->second.cast;
}

}  // namespace causeway::tensor
