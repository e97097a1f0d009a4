// How values lie over the mesh of their context (causeway/graph/sharding.h).
#pragma once

#include "causeway/tensor/tensor.h"

namespace causeway::tensor {

// x, which is to lie over the mesh as `sharding` says, and so is its gradient; x itself where the context has no mesh.
// Throws Error(kInvalidArgument) for a sharding that does not fit x or the mesh, and for one with partial sums.
Tensor constrain_sharding(const Tensor& x, const Sharding& sharding);

}  // namespace causeway::tensor
