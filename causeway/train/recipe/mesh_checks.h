// Whether what a recipe's mesh cuts can be cut.
#pragma once

#include "causeway/train/recipe/recipe.h"

namespace causeway::train {

// What the mesh cuts must have as many equal parts as there are ranks to hold them. Throws Error(kInvalidArgument) at
// the key alone; so do the others.
void check_mesh(const Recipe& recipe);

// Every stage has a layer for each of its pieces, and the schedule the micro-batches that it takes.
void check_pipeline(const Recipe& recipe);

}  // namespace causeway::train
