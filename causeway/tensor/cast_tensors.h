// Weights in the type that they are multiplied in, cast once for all steps that share them (StepOptions::casts).
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "causeway/tensor/tensor.h"

namespace causeway::tensor {

// Tensors in other types, made when they are first asked for.
class CastTensors {
 public:
  // Of several tensors the rows of each lie below those of the one before. The two axes of a matrix may be
  // `transposed`, each matrix's before that. What is new is computed when the first that is new is read.
  Tensor cast(const std::vector<Tensor>& tensors, DType dtype, bool transposed);

 private:
  struct Entry {
    std::vector<Tensor> sources;  // kept, so that no others have their states
    Tensor cast;
  };
  std::map<std::tuple<std::vector<const TensorState*>, DType, bool>, Entry> entries_;
};

}  // namespace causeway::tensor
