// Which nodes of a training step are the optimizer's: the scope in which it is traced tells them from the model's.
#pragma once

#include <string_view>

#include "causeway/graph/graph.h"

namespace causeway::passes {

inline constexpr char kOptimizerScope[] = "optimizer";

inline bool is_of_optimizer(const Node& node) { return std::string_view(node.scope).starts_with(kOptimizerScope); }

}  // namespace causeway::passes
