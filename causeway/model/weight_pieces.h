// What a rank holds of a model that a mesh cuts.
#pragma once

#include <cstdint>

#include "causeway/graph/sharding.h"
#include "causeway/namespaces.h"

namespace causeway::model {

// Into how many parts a mesh cuts a weight of which all dimensions divide (parameter_sharding.h): of its stage's
// weights, optimizer state and sums of gradients a rank holds this share at least.
int64_t weight_pieces(const Mesh& mesh);

}  // namespace causeway::model
