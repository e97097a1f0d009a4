// What the stages of a pipeline exchange. Their ranks trace functions of their own: each names its ends of messages.
#pragma once

#include <string>

#include "causeway/tensor/tensor.h"

namespace causeway::tensor {

// Sends x (f32 or bf16), as it lies over the mesh by `sharding`, to the ranks of another stage; it happens though
// nothing depends on it. `stream` is one of MeshCommunicators::channel(); `name` says what it is, different for each
// message of a trace. Throws Error(kInvalidArgument) where the context's mesh has no such stage.
void send_to_stage(const Tensor& x, int64_t stage, int stream, const Sharding& sharding, const std::string& name);

// What that stage sends.
Tensor receive_from_stage(const TensorType& type, int64_t stage, int stream, const Sharding& sharding,
                          const std::string& name);

// The sum of x (f32 or bf16), whole on every rank, over the stages, of which each comes to it; x itself where there is
// one.
Tensor sum_over_stages(const Tensor& x);

}  // namespace causeway::tensor
