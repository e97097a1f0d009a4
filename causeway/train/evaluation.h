// Loss on held-out text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "causeway/data/mixture_order.h"
#include "causeway/data/token_dataset.h"
#include "causeway/model/language_model.h"
#include "causeway/tensor/step.h"
#include "causeway/train/recipe/recipe.h"

namespace causeway::train {

struct EvaluationResult {
  double loss = 0;      // nats per target
  int64_t targets = 0;  // that the loss was taken over
  // The same for each source of the data, in their order.
  struct OfSource {
    std::string path;
    double loss = 0;
    int64_t targets = 0;
  };
  std::vector<OfSource> sources;
};

// How many held-out sequences of each source an evaluation reads: `most` shared out by the weights, or fewer, so that
// the shares stay, where a source does not have its share of them.
std::vector<uint64_t> evaluated_sequences(const SourceShares& shares, const TokenDataset& dataset,
                                          int64_t sequence_length, uint64_t most);

class Evaluator {
 public:
  // All outlive the evaluator.
  Evaluator(const LanguageModel& model, const Recipe& recipe, const TokenDataset& dataset);

  // The mean over the first windows of each source, in order, evaluation.sequences of them together: the same windows
  // every time. Throws what reading the data throws. Over a mesh every rank calls it, and gets the same.
  EvaluationResult run();

 private:
  EvaluationResult::OfSource run_source(const TokenDataset::Source& source, uint64_t sequences);

  const Recipe& recipe_;
  const TokenDataset& dataset_;
  bool document_mask_;
  int64_t rows_;
  int64_t vocabulary_size_;
  Step loss_sum_;
};

}  // namespace causeway::train
