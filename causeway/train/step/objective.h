// What a training step minimizes: the loss of a language model's targets, with a z-loss or without, of preference pairs
// or of sampled completions.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "causeway/model/language_model.h"
#include "causeway/train/recipe/recipe.h"
#include "causeway/train/step/stage_trace.h"

namespace causeway::train {

struct TrainingBatch;

// What a batch has a number of, beside tokens and targets: each row, or each position of each row.
enum class NumbersOf { kRows, kTokens };

class Objective {
 public:
  virtual ~Objective() = default;

  // Of one micro-batch: f32 [] each, the loss and then figures to be shown. Those of all micro-batches add up to those
  // of the batch. Of a whole model.
  virtual std::vector<Tensor> trace(const LanguageModel& model, const MicroBatch& batch) const = 0;
  // What is minimized, of what trace() gives: the loss, or it and some of the figures.
  virtual Tensor minimized(const std::vector<Tensor>& values) const { return values.front(); }
  // What the figures behind the loss are called in metrics.
  virtual std::vector<std::string> figure_names() const { return {}; }
  // What micro-batches have of MicroBatch::numbers.
  virtual std::vector<NumbersOf> numbers() const { return {}; }
  // The number of targets that MicroBatch::target_weight is one over.
  virtual int64_t weighed_targets(const TrainingBatch& batch) const = 0;
};

// Keeps the recipe.
std::unique_ptr<Objective> make_objective(const Recipe& recipe);

}  // namespace causeway::train
