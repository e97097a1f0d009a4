// The mean over the preference pairs of the whole batch of their losses (causeway/tensor/preference_ops.h), however it
// is split; orpo adds the mean loss of the targets of its chosen sides. Rows 2k and 2k + 1 of a micro-batch are the
// chosen and the rejected side of a pair. Of a reward model a row has one target, at its last token, and what is scored
// is the text up to there.
#pragma once

#include "causeway/train/recipe/preference_config.h"
#include "causeway/train/step/objective.h"

namespace causeway::train {

// log p of each row's targets, f32 [rows].
Tensor log_probabilities_of_rows(const LanguageModel& model, const MicroBatch& batch);

// What a reward model makes of each row, f32 [rows]; 0 of padding.
Tensor scores_of_rows(const LanguageModel& model, const MicroBatch& batch);

// Of the pairs of a micro-batch, f32 [pairs] each; 0 of pairs of which a side has no target, as where rows are padding.
struct PairTerms {
  Tensor loss;         // but for what orpo adds
  Tensor chosen_loss;  // the sum over the targets of the chosen side
  // beta times by how much more probable a side is than to the reference (dpo, ipo), or times its mean log-probability
  // a token (simpo, orpo); of a reward model its scores.
  Tensor chosen_reward, rejected_reward;
  Tensor is_preferred;  // 1 where the chosen side has the higher reward
};
PairTerms pair_terms(const LanguageModel& model, const MicroBatch& batch, const PreferenceConfig& config);

class PreferenceObjective : public Objective {
 public:
  explicit PreferenceObjective(const Recipe& recipe) : recipe_(recipe) {}

  std::vector<Tensor> trace(const LanguageModel& model, const MicroBatch& batch) const override;
  std::vector<std::string> figure_names() const override;
  // Where the loss compares with a reference, its log p of each row's targets.
  std::vector<NumbersOf> numbers() const override {
    return recipe_.preference.has_reference() ? std::vector{NumbersOf::kRows} : std::vector<NumbersOf>();
  }
  int64_t weighed_targets(const TrainingBatch& batch) const override;

 private:
  const Recipe& recipe_;
};

}  // namespace causeway::train
