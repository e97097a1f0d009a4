// The sum over the targets of the whole batch divided by their number, however it is split.
#pragma once

#include "causeway/train/step/objective.h"

namespace causeway::train {

class LanguageModellingObjective : public Objective {
 public:
  std::vector<Tensor> trace(const LanguageModel& model, const MicroBatch& batch) const override;
  int64_t weighed_targets(const TrainingBatch& batch) const override;
};

}  // namespace causeway::train
