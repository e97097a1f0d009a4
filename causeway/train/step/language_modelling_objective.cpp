#include "causeway/train/step/language_modelling_objective.h"

#include "causeway/tensor/ops.h"
#include "causeway/train/step/training_step.h"

namespace causeway::train {

std::vector<Tensor> LanguageModellingObjective::trace(const LanguageModel& model, const MicroBatch& batch) const {
  const LossAndZLoss both =
      model.loss_and_z_loss(batch.inputs, batch.targets, batch.token_weights, recipe_.train.z_loss);
  std::vector<Tensor> values = {both.loss};
  if (both.z_loss.defined()) values.push_back(both.z_loss);
  return values;
}

Tensor LanguageModellingObjective::minimized(const std::vector<Tensor>& values) const {
  return values.size() == 1 ? values.front() : values[0] + values[1];
}

std::vector<std::string> LanguageModellingObjective::figure_names() const {
  return recipe_.train.z_loss > 0 ? std::vector<std::string>{"z_loss"} : std::vector<std::string>();
}

int64_t LanguageModellingObjective::weighed_targets(const TrainingBatch& batch) const { return batch.valid_targets; }

}  // namespace causeway::train
