// The keys of a recipe's optimizer section.
#pragma once

#include <vector>

#include "causeway/optimizer/config.h"
#include "causeway/train/recipe/recipe_field.h"

namespace causeway::train {

// What all optimizers take, and what some add. They refer to `config`.
std::vector<Field> optimizer_fields(OptimizerConfig& config);

}  // namespace causeway::train
