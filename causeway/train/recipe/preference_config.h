// preference.*: training on pairs of completions of which one was preferred (docs/preference.md).
#pragma once

#include "causeway/base/named_values.h"
#include "causeway/namespaces.h"

namespace causeway::train {

struct Recipe;

// As causeway/tensor/preference_ops.h has them; kOrpo is the odds ratio's with the loss of the chosen completions, and
// kReward that of a reward model, which scores texts and writes none.
enum class PreferenceLoss { kNone, kDpo, kIpo, kSimpo, kOrpo, kReward };
constexpr auto named_values(PreferenceLoss) {
  return std::to_array<NamedValue<PreferenceLoss>>({{PreferenceLoss::kNone, "none"},
                                                    {PreferenceLoss::kDpo, "dpo"},
                                                    {PreferenceLoss::kIpo, "ipo"},
                                                    {PreferenceLoss::kSimpo, "simpo"},
                                                    {PreferenceLoss::kOrpo, "orpo"},
                                                    {PreferenceLoss::kReward, "reward"}});
}

struct PreferenceConfig {
  PreferenceLoss loss = PreferenceLoss::kNone;
  double beta = 0.1;
  double label_smoothing = 0;             // dpo
  double margin = 0.5;                    // simpo
  double center_rewards_coefficient = 0;  // reward

  bool is_used() const { return loss != PreferenceLoss::kNone; }
  // The model gives a score of each text's last token in place of logits.
  bool trains_reward_model() const { return loss == PreferenceLoss::kReward; }
  // Compares the model with the one that the run begins with.
  bool has_reference() const { return loss == PreferenceLoss::kDpo || loss == PreferenceLoss::kIpo; }
};

// Throws Error(kInvalidArgument, kUnsupported) naming the key: values out of range, and what pairs cannot be trained
// with. Sizes of batches and of the mesh are resolved.
void check_preference(const Recipe& recipe);
// Throws Error(kInvalidArgument) naming a key that has no effect on the recipe's loss.
void refuse_preference_without_effect(const Recipe& recipe);

}  // namespace causeway::train
