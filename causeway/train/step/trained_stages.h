// Of which stages of a pipeline something must be trained.
#pragma once

#include "causeway/train/recipe/recipe.h"

namespace causeway::train {

// Throws Error(kUnsupported) where nothing of the piece that the first stage begins with is trained. A gradient that
// nothing of it asks for would not be received, and the stage that sends it would wait for ever; pieces behind it
// always receive theirs, for they pass one on. Allocates nothing on a device.
void require_trained_first_piece(const Recipe& recipe);

}  // namespace causeway::train
