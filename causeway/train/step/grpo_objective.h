// Group relative policy optimization (Shao et al., 2024, arXiv 2402.03300) of completions that the model has sampled:
// the clipped surrogate of each token (causeway/tensor/policy_ops.h), and beta times an estimate of the divergence from
// the reference, averaged as grpo.loss_type says over the whole batch, however it is split. Targets are the
// completions' tokens.
#pragma once

#include "causeway/train/step/objective.h"

namespace causeway::train {

class GrpoObjective : public Objective {
 public:
  explicit GrpoObjective(const Recipe& recipe) : recipe_(recipe) {}

  std::vector<Tensor> trace(const LanguageModel& model, const MicroBatch& batch) const override;
  std::vector<std::string> figure_names() const override;
  // The advantage of each row; log p of each target as it was sampled; where several steps are taken on a batch, as it
  // was before them; where there is a reference, by it.
  std::vector<NumbersOf> numbers() const override;
  int64_t weighed_targets(const TrainingBatch& batch) const override;

 private:
  // f32 [rows, sequence_length]: what the loss of each token is multiplied by.
  Tensor token_weights(const MicroBatch& batch) const;

  const Recipe& recipe_;
};

}  // namespace causeway::train
