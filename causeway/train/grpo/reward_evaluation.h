// The reward of one completion of each validation prompt, always of the likeliest tokens.
#pragma once

#include <cstdint>
#include <vector>

#include "causeway/data/document_prompts.h"
#include "causeway/train/checkpoint/run_checkpoint.h"
#include "causeway/train/evaluation.h"
#include "causeway/train/grpo/prompt_set.h"
#include "causeway/train/ranks.h"

namespace causeway::train {

class RewardEvaluator {
 public:
  // Both outlive the evaluator. `end_tokens`: any of which ends a completion. Throws what DocumentPrompts and
  // make_reward() throw.
  RewardEvaluator(const RunParts& run, const TokenDataset& dataset, std::vector<int32_t> end_tokens);

  // The mean over the first prompts of each source, in order, evaluation.sequences of them together: the same prompts
  // every time. Memory for sampling is held meanwhile alone. Over a mesh every rank calls it, and gets the same.
  EvaluationResult run();

 private:
  const RunParts& run_;
  const TokenDataset& dataset_;
  const std::vector<int32_t> end_tokens_;
  const Ranks ranks_;
  std::vector<DocumentPrompts> of_sources_;
  Judge judge_;
};

}  // namespace causeway::train
