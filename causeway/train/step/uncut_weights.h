// What an axis of the mesh was to cut, and does not: sizes that it does not divide, and projections of which it would
// cut the wrong ones apart.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "causeway/model/language_model.h"
#include "causeway/train/recipe/recipe.h"

namespace causeway::train {

struct UncutWeights {
  std::string axis;  // "fsdp"
  int64_t ranks = 1;
  // Of a rank: weights, optimizer state and sums of gradients that each rank of the axis holds as a whole.
  int64_t bytes = 0;
  // Which: "model.layers.*.mlp.up_proj.weight [1408, 512]", layers once.
  std::vector<std::string> tensors;
  bool all = false;  // it cuts nothing of what a rank holds
};

// By axis, of the matrices among the parameters of a rank; vectors are left whole on purpose. Axes that leave less than
// a hundredth of a rank's bytes whole are not there.
std::vector<UncutWeights> uncut_weights(const std::vector<Parameter>& parameters, const Mesh& mesh,
                                        const Recipe& recipe);
// The same of the recipe's model on the first rank of its mesh, which need not be here; nothing is allocated.
std::vector<UncutWeights> uncut_weights(const Recipe& recipe);

// "mesh.fsdp=3 cuts no weight: 1.20 GiB of weights and optimizer state stay whole on each of its ranks, where 410 MiB
// would do. Whole are ...: none of their sizes is a multiple of 3 times what else cuts it."
std::string uncut_weights_text(const UncutWeights& uncut);

}  // namespace causeway::train
