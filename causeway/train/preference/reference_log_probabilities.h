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
};

// Of all pairs, by the model as it stands, with the kernels of the recipe's steps: a step of unchanged weights gives
// the same bits. Over a mesh every rank calls it, and gets the same. Throws what reading the data throws.
RunReference compute_reference(const LanguageModel& model, const Recipe& recipe, const TrainingData& data);

// The file of a run directory that holds it.
constexpr char kReferenceFile[] = "reference.safetensors";
// What those numbers depend on: the data, the model's configuration and the weights of model.from, and lora.from. The
// part about weights is empty where the directory is not there (any more).
struct ReferenceIdentity {
  std::string of_recipe_and_data, of_weights;
};
ReferenceIdentity reference_identity(const Recipe& recipe, const TrainingData& data);
// By the first rank; the file is replaced when it is whole.
void write_reference(const Recipe& recipe, const ReferenceIdentity& identity, const RunReference& reference);
// Nothing where there is no such file, it is damaged, or it is of other data or weights. All ranks make the call, and
// get what the first one reads.
std::optional<RunReference> read_reference(const Ranks& ranks, const Recipe& recipe, const ReferenceIdentity& identity,
                                           const TrainingData& data);

}  // namespace causeway::train
