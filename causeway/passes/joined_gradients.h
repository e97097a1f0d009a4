// The gradients of attention's queries, keys and values put together again, as the gradient of one projection that all
// three were slices of.
#pragma once

#include <optional>
#include <vector>

#include "causeway/graph/graph.h"

namespace causeway::passes {

// A gradient [B, T, H, D] as columns [first_column, first_column + H D) of [B, T, columns].
struct JoinedGradient {
  Value gradient;
  Dim first_column;
};

struct JoinedGradients {
  std::vector<JoinedGradient> parts;  // by their outputs' numbers
  std::vector<Value> between;         // what is computed from them on the way to `value`, which is not among them
};

// What `value` [B, T, columns] is made of, if that is three results of one attention_gradient side by side, by nothing
// but padding with zeros, additions and casts to its type and to f32: each element of theirs is one of its own.
std::optional<JoinedGradients> find_joined_gradients(const Graph& graph, Value value);

}  // namespace causeway::passes
