// How much better each completion is than the others of its prompt (group relative policy optimization: Shao et al.,
// 2024, arXiv 2402.03300).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "causeway/train/recipe/grpo_config.h"

namespace causeway::train {

struct Advantages {
  std::vector<float> values;    // of each completion
  double mean_reward = 0;       // of all
  double reward_deviation = 0;  // the standard deviation of all
  double share_of_equals = 0;   // of groups whose rewards are all the same: nothing is learned of them
};

// Of the rewards of groups of `group` completions, at least 2, one after another: (r - mean) / (s + 1e-4) with the mean
// of the group and s the deviation that `scale` names; with kNone r - mean. Deviations are those of samples (divided by
// one less than there are), as TRL's.
Advantages compute_advantages(std::span<const double> rewards, size_t group, RewardScale scale);

}  // namespace causeway::train
