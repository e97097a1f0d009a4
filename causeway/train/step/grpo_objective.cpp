#include "causeway/train/step/grpo_objective.h"

#include "causeway/base/error.h"
#include "causeway/tensor/ops.h"
#include "causeway/train/step/training_step.h"

namespace causeway::train {

// 0 where there is no target.
Tensor GrpoObjective::token_weights(const MicroBatch& batch) const {
  const GrpoConfig& grpo = recipe_.grpo;
  const auto rows = static_cast<double>(recipe_.train.batch_size);
  const Tensor is_target = cast(ge(batch.targets, 0.0), DType::kF32);
  switch (grpo.loss_type) {
    case GrpoLoss::kGrpo:
      return is_target / maximum(sum(is_target, {1}, true), 1.0) * (1 / rows);
    case GrpoLoss::kDrGrpo:
      return is_target * (1 / (rows * static_cast<double>(grpo.max_completion_length)));
    case GrpoLoss::kDapo:
      return batch.token_weights;
  }
  CAUSEWAY_CHECK(false, "no loss of completions");
}

std::vector<Tensor> GrpoObjective::trace(const LanguageModel& model, const MicroBatch& batch) const {
  const GrpoConfig& grpo = recipe_.grpo;
  const Tensor policy = -model.token_losses(batch.inputs, batch.targets, grpo.temperature);
  const Tensor advantages = broadcast_to(unsqueeze(batch.numbers[0], 1), batch.targets.shape());
  const Tensor& sampled = batch.numbers[1];
  const Tensor older = grpo.has_older_policy() ? batch.numbers[2] : stop_gradient(policy);
  const double lowest = 1 - grpo.epsilon, highest = grpo.highest_ratio();
  Tensor loss = clipped_policy_loss(policy, older, advantages, lowest, highest);
  Tensor divergence;
  if (grpo.has_reference()) {
    // Times the ratio, so that its gradient is that of the divergence itself where tokens were drawn by the older
    // policy (DeepSeek-V3.2, 2512.02556), as TRL has it.
    divergence = exp(policy - older) * divergence_estimate(policy, batch.numbers.back());
    loss = loss + divergence * grpo.beta;
  }
  const Tensor is_target = ge(batch.targets, 0.0);
  const auto weighed = [&](const Tensor& of_tokens, const Tensor& weights) {
    return sum(where(is_target, of_tokens, 0.0) * weights);
  };
  const auto mean = [&](const Tensor& of_tokens) { return weighed(of_tokens, batch.token_weights); };
  const Tensor below = mean(is_clipped_below(policy, older, advantages, lowest));
  const Tensor above = mean(is_clipped_above(policy, older, advantages, highest));
  std::vector<Tensor> values = {weighed(loss, token_weights(batch)), below + above, below, above,
                                mean(abs(older - sampled))};
  if (grpo.has_reference()) values.push_back(mean(divergence));
  return values;
}

std::vector<std::string> GrpoObjective::figure_names() const {
  std::vector<std::string> names = {"clip_ratio", "clip_ratio_low", "clip_ratio_high", "sampling_difference"};
  if (recipe_.grpo.has_reference()) names.emplace_back("kl");
  return names;
}

std::vector<NumbersOf> GrpoObjective::numbers() const {
  std::vector<NumbersOf> all = {NumbersOf::kRows, NumbersOf::kTokens};
  if (recipe_.grpo.has_older_policy()) all.push_back(NumbersOf::kTokens);
  if (recipe_.grpo.has_reference()) all.push_back(NumbersOf::kTokens);
  return all;
}

int64_t GrpoObjective::weighed_targets(const TrainingBatch& batch) const { return batch.valid_targets; }

}  // namespace causeway::train
