#include "causeway/train/grpo/advantages.h"

#include <cmath>

#include "causeway/base/error.h"

namespace causeway::train {
namespace {

double mean_of(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double deviation_of(std::span<const double> values) {
  const double mean = mean_of(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

}  // namespace

Advantages compute_advantages(std::span<const double> rewards, size_t group, RewardScale scale) {
  constexpr double kAgainstZero = 1e-4, kZero = 1e-8;
  CAUSEWAY_CHECK(group >= 2 && !rewards.empty() && rewards.size() % group == 0, "{} rewards in groups of {}",
                 rewards.size(), group);
  Advantages result;
  result.mean_reward = mean_of(rewards);
  result.reward_deviation = deviation_of(rewards);
  size_t equals = 0;
  for (size_t first = 0; first < rewards.size(); first += group) {
    const std::span<const double> of_group = rewards.subspan(first, group);
    const double mean = mean_of(of_group), deviation = deviation_of(of_group);
    if (deviation <= kZero) ++equals;
    const double by = scale == RewardScale::kNone
                          ? 1
                          : (scale == RewardScale::kGroup ? deviation : result.reward_deviation) + kAgainstZero;
    for (const double reward : of_group) result.values.push_back(static_cast<float>((reward - mean) / by));
  }
  result.share_of_equals = static_cast<double>(equals * group) / static_cast<double>(rewards.size());
  return result;
}

}  // namespace causeway::train
