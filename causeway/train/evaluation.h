// Loss on held-out text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "causeway/data/document_packing.h"
#include "causeway/data/mixture_order.h"
#include "causeway/data/token_dataset.h"
#include "causeway/model/language_model.h"
#include "causeway/tensor/step.h"
#include "causeway/train/recipe/recipe.h"

namespace causeway::train {

struct EvaluationResult {
  double loss = 0;      // nats per target; where targets have weights, their weighted mean
  int64_t targets = 0;  // that the loss was taken over
  // The same for each source of the data of which a target was read, in their order.
  struct OfSource {
    std::string path;
    double loss = 0;
    int64_t targets = 0;
    double weight = 0;  // of the targets: their number where all weigh 1
  };
  std::vector<OfSource> sources;
  // Of preference pairs (PreferenceEvaluator), whose loss is one of pairs: how many, and the share of them of which the
  // chosen side has the higher reward.
  int64_t pairs = 0;
  double accuracy = 0;
  // Of prompts (RewardEvaluator), which have no loss: how many completions, and their mean reward.
  int64_t completions = 0;
  double reward = 0;
};

// How many held-out sequences of each source, which has so many (`there`), an evaluation reads: `most` shared out by
// the weights, or fewer, so that the shares stay, where a source does not have its share of them.
std::vector<uint64_t> evaluated_sequences(const SourceShares& shares, const std::vector<uint64_t>& there,
                                          uint64_t most);

class Evaluator {
 public:
  // All outlive the evaluator.
  Evaluator(const LanguageModel& model, const Recipe& recipe, const TokenDataset& dataset);

  // The mean over the first windows of each source, in order, evaluation.sequences of them together: the same windows
  // every time. Where documents are packed and the data says what of them is trained on, windows are samples of whole
  // documents. Throws Error(kInvalidArgument) where none of the windows has a target, and what reading the
  // data throws. Over a mesh every rank calls it, and gets the same.
  EvaluationResult run();

 private:
  std::vector<uint64_t> sequences_there() const;
  EvaluationResult::OfSource run_source(size_t number, uint64_t sequences);

  const Recipe& recipe_;
  const TokenDataset& dataset_;
  bool document_mask_, has_weights_;
  std::vector<DocumentPacking> packings_;  // of each source, where they are evaluated so
  int64_t rows_;
  int64_t vocabulary_size_;
  Step loss_sum_;
};

}  // namespace causeway::train
