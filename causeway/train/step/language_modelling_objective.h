// The sum over the targets of the whole batch divided by their number, however it is split; and the z-loss of the same
// targets, with train.z_loss, which is minimized together with it and is a figure of its own. So are the losses of
// routers (moe.*) where the model has experts, and there are figures of how routers share out tokens.
#pragma once

#include "causeway/train/step/objective.h"

namespace causeway::train {

class LanguageModellingObjective : public Objective {
 public:
  explicit LanguageModellingObjective(const Recipe& recipe) : recipe_(recipe) {}

  std::vector<Tensor> trace(const LanguageModel& model, const MicroBatch& batch) const override;
  Tensor minimized(const std::vector<Tensor>& values) const override;
  std::vector<std::string> figure_names() const override;
  int64_t weighed_targets(const TrainingBatch& batch) const override;

 private:
  const Recipe& recipe_;
};

}  // namespace causeway::train
