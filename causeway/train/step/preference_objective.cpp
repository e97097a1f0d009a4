#include "causeway/train/step/preference_objective.h"

#include "causeway/base/error.h"
#include "causeway/tensor/ops.h"
#include "causeway/tensor/preference_ops.h"
#include "causeway/train/step/training_step.h"

namespace causeway::train {
namespace {

// Of numbers of rows.
PreferencePairs sides_of(const Tensor& rows) {
  const Dim pairs(rows.size(0).constant() / 2);
  const Tensor of_pairs = reshape(rows, {pairs, Dim(2)});
  const auto side = [&](int64_t number) { return reshape(narrow(of_pairs, 1, number, 1), {pairs}); };
  return {side(0), side(1)};
}

Tensor loss_of_pairs(const PreferencePairs& policy, const PreferencePairs& reference, const PreferencePairs& lengths,
                     const PreferenceConfig& config) {
  switch (config.loss) {
    case PreferenceLoss::kNone:
    case PreferenceLoss::kReward:
      break;
    case PreferenceLoss::kDpo:
      return dpo_loss(policy, reference, config.beta, config.label_smoothing);
    case PreferenceLoss::kIpo:
      return ipo_loss(policy, reference, lengths, config.beta);
    case PreferenceLoss::kSimpo:
      return simpo_loss(policy, lengths, config.beta, config.margin);
    case PreferenceLoss::kOrpo:
      return odds_ratio_loss(policy, lengths, config.beta);
  }
  CAUSEWAY_CHECK(false, "no loss of pairs");
}

}  // namespace

Tensor log_probabilities_of_rows(const LanguageModel& model, const MicroBatch& batch) {
  return -sum(model.token_losses(batch.inputs, batch.targets), {1});
}

Tensor scores_of_rows(const LanguageModel& model, const MicroBatch& batch) {
  return sum(where(ge(batch.targets, 0.0), model.scores(batch.inputs), 0.0), {1});
}

namespace {

PairTerms scored_terms(const LanguageModel& model, const MicroBatch& batch, const PreferenceConfig& config) {
  const PreferencePairs scores = sides_of(scores_of_rows(model, batch));
  const PreferencePairs rows = sides_of(amax(cast(ge(batch.targets, 0.0), DType::kF32), {1}));
  const Tensor is_pair = logical_and(gt(rows.chosen, 0.0), gt(rows.rejected, 0.0));
  return {where(is_pair, reward_loss(scores, config.center_rewards_coefficient), 0.0), zeros_like(scores.chosen),
          scores.chosen, scores.rejected, where(is_pair, cast(gt(scores.chosen, scores.rejected), DType::kF32), 0.0)};
}

}  // namespace

PairTerms pair_terms(const LanguageModel& model, const MicroBatch& batch, const PreferenceConfig& config) {
  if (config.trains_reward_model()) return scored_terms(model, batch, config);
  const PreferencePairs policy = sides_of(log_probabilities_of_rows(model, batch));
  const PreferencePairs targets = sides_of(sum(cast(ge(batch.targets, 0.0), DType::kF32), {1}));
  const Tensor is_pair = logical_and(gt(targets.chosen, 0.0), gt(targets.rejected, 0.0));
  const PreferencePairs lengths = {maximum(targets.chosen, 1.0), maximum(targets.rejected, 1.0)};
  PreferencePairs reference, rewards;
  if (config.has_reference()) {
    reference = sides_of(batch.numbers.front());
    rewards = {(policy.chosen - reference.chosen) * config.beta, (policy.rejected - reference.rejected) * config.beta};
  } else {
    rewards = {policy.chosen / lengths.chosen * config.beta, policy.rejected / lengths.rejected * config.beta};
  }
  const auto of_pairs = [&](const Tensor& numbers) { return where(is_pair, numbers, 0.0); };
  return {of_pairs(loss_of_pairs(policy, reference, lengths, config)), of_pairs(-policy.chosen),
          of_pairs(rewards.chosen), of_pairs(rewards.rejected),
          of_pairs(cast(gt(rewards.chosen, rewards.rejected), DType::kF32))};
}

std::vector<Tensor> PreferenceObjective::trace(const LanguageModel& model, const MicroBatch& batch) const {
  const PairTerms terms = pair_terms(model, batch, recipe_.preference);
  const double share = 2.0 / static_cast<double>(recipe_.train.batch_size);
  Tensor loss = sum(terms.loss) * share;
  if (recipe_.preference.loss == PreferenceLoss::kOrpo) loss = loss + sum(terms.chosen_loss) * batch.target_weight;
  const Tensor chosen = sum(terms.chosen_reward) * share, rejected = sum(terms.rejected_reward) * share;
  return {loss, chosen, rejected, chosen - rejected, sum(terms.is_preferred) * share};
}

std::vector<std::string> PreferenceObjective::figure_names() const {
  return {"chosen_reward", "rejected_reward", "reward_margin", "reward_accuracy"};
}

int64_t PreferenceObjective::weighed_targets(const TrainingBatch& batch) const { return batch.chosen_targets; }

}  // namespace causeway::train
