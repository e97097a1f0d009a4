// Weights in the type that they are multiplied in, cast once for all steps that share them (StepOptions::casts).
#pragma once

#include <map>
#include <tuple>

#include "causeway/tensor/tensor.h"

namespace causeway::tensor {

// Tensors in other types, made when they are first asked for.
class CastTensors {
 public:
  // The two axes of a matrix may be `transposed`. What is new is computed when the first that is new is read.
  Tensor cast(const Tensor& tensor, DType dtype, bool transposed);

 private:
  struct Entry {
    Tensor source, cast;  // the source is kept, so that no other has its state
  };
  std::map<std::tuple<const TensorState*, DType, bool>, Entry> entries_;
};

}  // namespace causeway::tensor
