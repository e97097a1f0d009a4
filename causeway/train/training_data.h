// The data of a run, opened: one dataset or the sources of a mixture, what is held out of them, and the order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "causeway/data/mixture_order.h"
#include "causeway/data/token_dataset.h"
#include "causeway/train/recipe/recipe.h"

namespace causeway::train {

struct TrainingData {
  TokenDataset dataset;
  std::optional<TokenDataset> validation;  // with the same sources
  MixtureOrder order;
};

// Opens what the recipe names. Held-out text is optional: files that are named have none, and a directory need not. Of
// a mixture all sources have some, or none has. Throws Error naming the source: what TokenDataset::open throws, and
// kInvalidArgument for different tokenizers, for a source without held-out text beside others with it, for one that
// does not fill a sequence, and where the tokenizer has more tokens than the model of model.from.
TrainingData open_training_data(const Recipe& recipe);

// As many steps as the recipe's train.epochs are over this data, rounded up: passes over the samples of all sources
// together. Throws Error(kInvalidArgument) where train.steps says another number beside it, and as Schedule does.
void resolve_steps(Recipe& recipe, const TrainingData& data);

// What the whole run reads: how many steps its epochs are, where it has them, and of a mixture a line for each source.
std::vector<std::string> describe_sources(const TrainingData& data, const Recipe& recipe);

// How documents are packed into samples, a line for each source; nothing where they are not.
std::vector<std::string> describe_packing(const TrainingData& data, const Recipe& recipe);

// How often the first `samples` samples go through each source of a mixture, by its path; nothing of a single dataset.
std::vector<std::pair<std::string, double>> source_epochs(const TrainingData& data, uint64_t samples);

}  // namespace causeway::train
