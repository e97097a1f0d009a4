// The weights that a new run of model.from begins with.
#pragma once

#include "causeway/data/token_dataset.h"
#include "causeway/model/language_model.h"
#include "causeway/train/ranks.h"
#include "causeway/train/recipe/recipe.h"

namespace causeway::train {

// Throws Error(kInvalidArgument) where the dataset has more tokens than the embedding of the recipe's model.from has
// rows.
void require_fitting_vocabulary(const Recipe& recipe, const TokenDataset& dataset);

// Fills the model, or each rank's part of it, with the weights of the directory, which is read in place: a rank touches
// what it holds and no more. All ranks make the call. Throws Error, on every rank, as load_weights() does, naming
// directory and tensor.
void load_initial_weights(const Ranks& ranks, const Recipe& recipe, LanguageModel& model);

}  // namespace causeway::train
