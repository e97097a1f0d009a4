// The pairs of a dataset once, a micro-batch of the recipe's at a time: for what is computed of each without training.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "causeway/data/batch_loader.h"
#include "causeway/data/document_pairs.h"
#include "causeway/model/language_model.h"
#include "causeway/tensor/step.h"
#include "causeway/train/preference/reference_log_probabilities.h"
#include "causeway/train/recipe/recipe.h"
#include "causeway/train/step/stage_trace.h"

namespace causeway::train {

class PairPass {
 public:
  using Trace = std::function<std::vector<Tensor>(const LanguageModel&, const MicroBatch&)>;
  // All outlive the pass. `trace` gives what is wanted of a micro-batch, with its reference where `reference` is not
  // null, and without dropout: with the recipe's pipeline options, so that rows have the bits that they have in
  // training.
  PairPass(const LanguageModel& model, const Recipe& recipe, const TokenDataset& dataset,
           const ReferenceLogProbabilities* reference, Trace trace);

  // Over the first `samples` sides of `pairs`, in order; `visit` is given what was traced, whole on every rank, and how
  // many of the micro-batch's rows are no padding. Over a mesh every rank calls it. Throws what reading the data
  // throws.
  void run(const DocumentPairs& pairs, uint64_t samples,
           const std::function<void(const Batch& batch, int64_t rows, const std::vector<Tensor>& results)>& visit);

  const std::shared_ptr<Context>& context() const { return step_.context(); }

 private:
  const Recipe& recipe_;
  const TokenDataset& dataset_;
  const ReferenceLogProbabilities* const reference_;
  Step step_;
};

}  // namespace causeway::train
