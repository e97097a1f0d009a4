#include "causeway/train/step/language_modelling_objective.h"

#include "causeway/train/step/training_step.h"

namespace causeway::train {

std::vector<Tensor> LanguageModellingObjective::trace(const LanguageModel& model, const MicroBatch& batch) const {
  return {model.loss(batch.inputs, batch.targets, batch.token_weights)};
}

int64_t LanguageModellingObjective::weighed_targets(const TrainingBatch& batch) const { return batch.valid_targets; }

}  // namespace causeway::train
