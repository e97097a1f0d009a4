// log p of the completions of preference pairs by the weights that a run begins with, which the losses dpo and ipo
// compare the model with. They are computed once, before the first step, for all pairs of the dataset, and kept in the
// run directory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "causeway/data/batch_loader.h"
#include "causeway/data/token_dataset.h"
#include "causeway/model/language_model.h"
#include "causeway/train/ranks.h"
#include "causeway/train/recipe/recipe.h"
#include "causeway/train/training_data.h"

namespace causeway::train {

// Of the documents of a dataset of pairs: f32, in the order of the dataset.
class ReferenceLogProbabilities {
 public:
  // `offsets`: of each document's first token, rising.
  ReferenceLogProbabilities(std::vector<uint64_t> offsets, std::vector<float> values);

  const std::vector<float>& values() const { return values_; }
  // Of the batch's own rows; 0 of padding.
  std::vector<float> of_rows(const Batch& batch) const;

 private:
  std::vector<uint64_t> offsets_;
  std::vector<float> values_;
};

struct RunReference {
  ReferenceLogProbabilities training;
  std::optional<ReferenceLogProbabilities> validation;  // where there is validation data
  std::string weights = {};                             // that they are of: identity_of_weights()
};

// Of all pairs, by the model as it stands, with the kernels of the recipe's steps: a step of unchanged weights gives
// the same bits. Over a mesh every rank calls it, and gets the same. Throws what reading the data throws.
RunReference compute_reference(const LanguageModel& model, const Recipe& recipe, const TrainingData& data);

// The file of a run directory that holds it.
constexpr char kReferenceFile[] = "reference.safetensors";
// A hash of what those numbers depend on besides the weights: the data and the model's configuration.
std::string identity_of_recipe_and_data(const Recipe& recipe, const TrainingData& data);
// A hash of the weights of model.from and, where the recipe names it, lora.from. Empty where one of the two is not
// there (any more). Throws what reading them throws.
std::string identity_of_weights(const Recipe& recipe);
// By the first rank; the file is replaced when it is whole.
void write_reference(const Recipe& recipe, const std::string& of_recipe_and_data, const RunReference& reference);
// `of_weights`: the identity of the weights that the run begins with, or began with; empty where it is not known, and
// the file is then taken whatever its weights. Nothing where there is no such file, it is damaged, or it is of other
// data or weights. All ranks make the call, and get what the first one reads.
std::optional<RunReference> read_reference(const Ranks& ranks, const Recipe& recipe,
                                           const std::string& of_recipe_and_data, const std::string& of_weights,
                                           const TrainingData& data);

}  // namespace causeway::train
