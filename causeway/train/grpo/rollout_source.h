// What the steps of a run with grpo.reward are of: prompts of the data, in their order, completions that the model
// samples with its weights as they are before the step, their rewards and advantages. Several steps may be of one
// rollout (grpo.num_iterations).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "causeway/train/checkpoint/run_checkpoint.h"
#include "causeway/train/grpo/completion_sampler.h"
#include "causeway/train/grpo/prompt_set.h"
#include "causeway/train/grpo/rollout.h"
#include "causeway/train/grpo/rollout_pass.h"
#include "causeway/train/ranks.h"
#include "causeway/train/training_data.h"

namespace causeway::train {

// Over a mesh every rank makes the same calls, and has the same rollouts.
class RolloutSource {
 public:
  // All outlive it. `reference`: as RolloutPass has it. `first`: where the run begins, or goes on. Throws Error where
  // the data has no tokenizer, and as make_reward() does.
  RolloutSource(const RunParts& run, const TrainingData& data, const LanguageModel* reference, const Ranks& ranks,
                const RunPosition& first);

  // Before the first step. Throws Error naming the first prompt whose record lacks what the reward reads.
  void require_records() const;

  struct Next {
    RolloutBatch batch;                                   // of this rank's rows
    std::vector<std::pair<std::string, double>> figures;  // of the rollout
    uint64_t cursor = 0;                                  // of the data, behind the step
    std::shared_ptr<const RolloutState> state;            // where sampling is then
  };
  // What the next step is of: of the rollout that is there, or of a new one. `step` counts from 1, for messages. Throws
  // what reading, sampling and judging throw; what was there before is then as it was.
  Next next(int64_t step);

 private:
  std::shared_ptr<const Rollout> sample(int64_t step);
  void judge(const std::vector<Prompt>& prompts, int64_t step, Rollout& rollout);

  const RunParts& run_;
  const TrainingData& data_;
  const Ranks& ranks_;
  uint64_t cursor_;
  std::vector<int32_t> end_tokens_;
  PromptSet prompts_;
  Judge judge_;
  CompletionSampler sampler_;
  RolloutPass pass_;
  std::shared_ptr<const Rollout> rollout_;
  int64_t steps_ = 0;  // that were taken on it
};

// Any of these ends a completion of the run's model: what the directory of model.from says, as for generation, or else
// the tokenizer.
std::vector<int32_t> end_tokens_of(const Recipe& recipe, const Tokenizer& tokenizer);

}  // namespace causeway::train
