// The loss of validation pairs, and which share of them the model tells apart.
#pragma once

#include <vector>

#include "causeway/data/document_pairs.h"
#include "causeway/train/evaluation.h"
#include "causeway/train/preference/pair_pass.h"

namespace causeway::train {

class PreferenceEvaluator {
 public:
  // All outlive the evaluator. `reference`: where the recipe's loss has one.
  PreferenceEvaluator(const LanguageModel& model, const Recipe& recipe, const TokenDataset& dataset,
                      const ReferenceLogProbabilities* reference);

  // The recipe's loss as a mean over the first pairs of each source, in order, evaluation.sequences of sides together:
  // the same pairs every time. Over a mesh every rank calls it, and gets the same.
  EvaluationResult run();

 private:
  const Recipe& recipe_;
  const TokenDataset& dataset_;
  std::vector<DocumentPairs> pairs_;  // of each source
  PairPass pass_;
};

}  // namespace causeway::train
