// Whether data was made with the tokenizer of the model that a run begins with.
#pragma once

#include <string>

#include "causeway/data/token_dataset.h"
#include "causeway/formats/tokenizer/tokenizer.h"
#include "causeway/train/recipe/recipe.h"

namespace causeway::train {

// Nothing where two tokenizers give the same ids: every id that both have stands for the same text, and a text of many
// scripts has the same ids. Else the first difference, as "token 7 is \"a\" in one and \"b\" in the other". Two kinds
// of files of one tokenizer, and one with tokens added behind those of the other, are the same.
std::string tokenizer_difference(const Tokenizer& one, const Tokenizer& other);

// Of a recipe with model.from: throws Error(kInvalidArgument) naming the dataset where both say their tokenizers and
// these differ, unless data.allow_other_tokenizer. Returns what the run has to say of it: that they differ, or cannot
// be compared, for the token files name no tokenizer or the model's directory has none that is read here. Empty where
// they are the same.
std::string compare_with_tokenizer_of_model(const Recipe& recipe, const TokenDataset& dataset);

}  // namespace causeway::train
