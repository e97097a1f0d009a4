// grpo.*: training on completions that the model samples itself and a reward judges (docs/reinforcement.md). Names and
// defaults are those of TRL's GRPOConfig.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "causeway/base/named_values.h"
#include "causeway/namespaces.h"

namespace causeway::train {

struct Field;
struct Recipe;

// What judges a completion.
enum class RewardKind { kNone, kExactMatch, kRegex, kProgram };
constexpr auto named_values(RewardKind) {
  return std::to_array<NamedValue<RewardKind>>({{RewardKind::kNone, "none"},
                                                {RewardKind::kExactMatch, "exact_match"},
                                                {RewardKind::kRegex, "regex"},
                                                {RewardKind::kProgram, "program"}});
}

// Over what the losses of tokens are averaged: each completion and then all of them (Shao et al., arXiv 2402.03300); a
// constant (Liu et al., 2503.20783); all tokens of the batch (Yu et al., 2503.14476).
enum class GrpoLoss { kGrpo, kDrGrpo, kDapo };
constexpr auto named_values(GrpoLoss) {
  return std::to_array<NamedValue<GrpoLoss>>(
      {{GrpoLoss::kGrpo, "grpo"}, {GrpoLoss::kDrGrpo, "dr_grpo"}, {GrpoLoss::kDapo, "dapo"}});
}

// By whose standard deviation a reward's distance from its group's mean is divided.
enum class RewardScale { kGroup, kBatch, kNone };
constexpr auto named_values(RewardScale) {
  return std::to_array<NamedValue<RewardScale>>(
      {{RewardScale::kGroup, "group"}, {RewardScale::kBatch, "batch"}, {RewardScale::kNone, "none"}});
}

struct GrpoConfig {
  RewardKind reward = RewardKind::kNone;
  std::string reward_pattern;  // of kRegex
  std::string reward_program;  // of kProgram: a command line
  double reward_timeout = 60;  // seconds that the program has for a completion
  int64_t num_generations = 8;
  int64_t max_completion_length = 256;  // tokens
  double temperature = 1;
  int64_t top_k = 0;  // 0: all
  double top_p = 1;
  int64_t sampling_batch_size = 0;  // completions that are sampled side by side; 0: train.batch_size
  int64_t num_iterations = 1;       // steps on the same completions
  double epsilon = 0.2;
  double epsilon_high = 0;  // 0: epsilon
  double beta = 0;
  RewardScale scale_rewards = RewardScale::kGroup;
  GrpoLoss loss_type = GrpoLoss::kDapo;
  bool mask_truncated_completions = false;

  bool is_used() const { return reward != RewardKind::kNone; }
  // Compares the model with the one that the run begins with.
  bool has_reference() const { return is_used() && beta > 0; }
  // Steps go on from log-probabilities that the model had before them; otherwise they are those that the step has.
  bool has_older_policy() const { return is_used() && num_iterations > 1; }
  double highest_ratio() const { return 1 + (epsilon_high > 0 ? epsilon_high : epsilon); }
};

// The keys, of a configuration that outlives them.
std::vector<Field> grpo_fields(GrpoConfig& config);

// Completions are sampled with a KV cache: where weights are whole on one device, and sampling need not have the bits
// of training.
bool samples_with_cache(const Recipe& recipe);
// How many completions are sampled together.
int64_t sampled_side_by_side(const Recipe& recipe);
// The reference of grpo.beta is a second model; with adapters it is the model without them.
bool holds_reference_model(const Recipe& recipe);

// Throws Error(kInvalidArgument, kUnsupported) naming the key: values out of range, and what completions cannot be
// trained with. Sizes of batches and of the mesh are resolved.
void check_grpo(const Recipe& recipe);
// Throws Error(kInvalidArgument) naming a key that has no effect in the recipe.
void refuse_grpo_without_effect(const Recipe& recipe);

}  // namespace causeway::train
