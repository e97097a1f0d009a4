// log p of sampled completions' tokens, a micro-batch at a time, as training computes it: with the recipe's pipeline
// options and the shapes of its steps, so that a step of unchanged weights has the same bits.
#pragma once

#include <span>
#include <vector>

#include "causeway/model/language_model.h"
#include "causeway/tensor/step.h"
#include "causeway/train/grpo/rollout.h"
#include "causeway/train/recipe/recipe.h"

namespace causeway::train {

class RolloutPass {
 public:
  // All outlive the pass. `reference`: the weights that the run began with, where the loss compares with them and the
  // model has no adapters; null: the model without its adapters.
  RolloutPass(const LanguageModel& model, const LanguageModel* reference, const Recipe& recipe);

  // Of as many completions as are whole micro-batches: Completion::older, where `computes_older`, and
  // Completion::reference, where the loss has one. Over a mesh every rank calls it, and gets the same.
  void run(std::span<Completion> completions, bool computes_older);

 private:
  Step make_step(const LanguageModel& model, bool without_adapters) const;
  // Into what `of` gives of each completion.
  void run_one(Step& step, std::span<Completion> completions, std::vector<float> Completion::* of);

  const Recipe& recipe_;
  Step policy_, reference_;  // tokens and targets i32 [rows, sequence_length] -> f32 of the same shape
  std::vector<Tensor> arguments_;
};

}  // namespace causeway::train
