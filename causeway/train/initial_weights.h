// The weights that a run of model.from begins with: those of the directory, and its adapters' first ones.
#pragma once

#include <string>

#include "causeway/data/token_dataset.h"
#include "causeway/model/language_model.h"
#include "causeway/train/ranks.h"
#include "causeway/train/recipe/recipe.h"

namespace causeway::train {

// Throws Error(kInvalidArgument) where the dataset has more tokens than the embedding of the recipe's model.from has
// rows.
void require_fitting_vocabulary(const Recipe& recipe, const TokenDataset& dataset);

// Fills the model, or each rank's part of it, with the weights of model.from (StoredModel), which are read in place: a
// rank touches what it holds and no more. All ranks make the call. Throws Error, on every rank, as StoredModel does,
// naming directory and tensor. Returns their identity.
std::string load_initial_weights(const Ranks& ranks, const Recipe& recipe, LanguageModel& model);

// The base of adapters that were trained on one of that identity (empty: it is not known), from the recipe's
// model.from: fills the model but for its adapters. Throws Error as open_base() does.
void load_base_weights(const Recipe& recipe, const std::string& identity, LanguageModel& model);

// Gives a new run's adapters their first values: those of lora.from (StoredAdapter), or those of initialize_adapters().
// All ranks make the call. Throws Error(kInvalidArgument) where those of lora.from are of another base than model.from.
void load_initial_adapters(const Ranks& ranks, const Recipe& recipe, LanguageModel& model);

}  // namespace causeway::train
