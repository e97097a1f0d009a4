// The keys of a recipe's optimizer section.
#pragma once

#include <string_view>
#include <vector>

#include "causeway/optimizer/config.h"
#include "causeway/train/recipe/recipe_field.h"

namespace causeway::train {

// What all optimizers take, and what some add. They refer to `config`.
std::vector<Field> optimizer_fields(OptimizerConfig& config);

// Whether a key ("optimizer.momentum") is one that other optimizers add, and the chosen one does not. Its value would
// be a default of theirs.
bool is_of_another_optimizer(std::string_view key, const OptimizerConfig& config);

}  // namespace causeway::train
