// The recipe that a command is given: a file, or the name of a recipe that the program brings along.
#pragma once

#include <string>
#include <vector>

#include "causeway/train/recipe/recipe.h"

namespace causeway::cli {

// Names of the recipes within the program (recipes/*.yaml when it was built), sorted.
std::vector<std::string> shipped_recipe_names();

// A file of that name comes first. Throws as load_recipe(), and Error(kNotFound) with the nearest name for what is
// neither a file nor the name of a recipe.
Recipe load_recipe_argument(const std::string& recipe, const std::vector<std::string>& overrides);

}  // namespace causeway::cli
