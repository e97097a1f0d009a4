// A kernel of one's own as an op, on every device; docs/user_kernels.md is the guide.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "causeway/tensor/tensor.h"

namespace causeway::tensor {

struct UserKernel {
  // A function in `source`, called by every thread of every block as NAME(block, inputs..., outputs..., sizes...): the
  // guide says what the arguments are and what the text may use.
  std::string name;
  std::string source;
  std::vector<TensorType> outputs;
  std::vector<Dim> sizes;
  Dim tasks = 1;
  int threads = 256;     // of a block on a GPU; a multiple of 64
  int shared_bytes = 0;  // at most 48 KiB
  // The gradients of the inputs from those of the outputs, in library ops or further kernels. Gradients given are
  // undefined where none flow; those returned may be undefined where the input has none.
  std::function<std::vector<Tensor>(std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                                    std::span<const Tensor> output_gradients)>
      gradient;
};

// Throws Error(kInvalidArgument) when the specification is wrong at once, and with the compiler's message at the user's
// own line when the text is compiled.
std::vector<Tensor> user_kernel(const UserKernel& kernel, std::span<const Tensor> inputs);

}  // namespace causeway::tensor
