// What of a step's activations is computed again: as the recipe says, or with train.recompute=auto as little as fits
// the device's memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "causeway/passes/pipeline_options.h"
#include "causeway/train/recipe/recipe.h"

namespace causeway::train {

// What a step may take of a device's memory; the rest is for kernels and what the driver keeps beside them.
inline constexpr double kMostOfMemory = 0.97;

// Of train.recompute and train.recompute_layers; of auto nothing.
Recomputation recomputation_of(const Recipe& recipe);
// The recipe with these two keys in place of its own.
Recipe with_recomputation(const Recipe& recipe, const Recomputation& recomputation);

// The one that takes least time of those with which a step takes at most `limit` bytes: nothing, elementwise chains,
// besides these the first layers as a whole, as few as do, and all of them, which is what comes out when nothing fits.
// With stages all or none. `bytes_of` is asked for a handful.
Recomputation choose_recomputation(const Recipe& recipe, int64_t limit,
                                   const std::function<int64_t(const Recomputation&)>& bytes_of);

// "selective", "block of the first 12 of 48 layers, selective of the others".
std::string recomputation_text(const Recomputation& recomputation, const Recipe& recipe);

}  // namespace causeway::train
