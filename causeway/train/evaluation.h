// Loss on held-out text.
#pragma once

#include <cstdint>

#include "causeway/data/token_dataset.h"
#include "causeway/model/language_model.h"
#include "causeway/tensor/step.h"
#include "causeway/train/recipe/recipe.h"

namespace causeway::train {

struct EvaluationResult {
  double loss = 0;      // nats per target
  int64_t targets = 0;  // that the loss was taken over
};

class Evaluator {
 public:
  // All outlive the evaluator.
  Evaluator(const LanguageModel& model, const Recipe& recipe, const TokenDataset& dataset);

  // The mean over the first evaluation.sequences windows of the dataset, in order: the same windows every time. Throws
  // what reading the data throws. Over a mesh every rank calls it, and gets the same.
  EvaluationResult run();

 private:
  const Recipe& recipe_;
  const TokenDataset& dataset_;
  bool document_mask_;
  int64_t rows_;
  int64_t vocabulary_size_;
  Step loss_sum_;
};

}  // namespace causeway::train
