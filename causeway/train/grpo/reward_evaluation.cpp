#include "causeway/train/grpo/reward_evaluation.h"

#include <algorithm>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/train/grpo/completion_sampler.h"
#include "causeway/train/step/training_step.h"

namespace causeway::train {

RewardEvaluator::RewardEvaluator(const RunParts& run, const TokenDataset& dataset, std::vector<int32_t> end_tokens)
    : run_(run),
      dataset_(dataset),
      end_tokens_(std::move(end_tokens)),
      ranks_(run.step.context()),
      judge_(run.recipe.grpo, ranks_) {
  CAUSEWAY_CHECK(run.tokenizer != nullptr);
  const int64_t longest = run.recipe.data.sequence_length + 1 - run.recipe.grpo.max_completion_length;
  for (size_t i = 0; i < dataset.sources().size(); ++i) of_sources_.emplace_back(dataset, i, longest);
}

EvaluationResult RewardEvaluator::run() {
  std::vector<double> weights;
  for (const DataSource& source : run_.recipe.data.sources()) weights.push_back(source.weight);
  std::vector<uint64_t> there;
  std::vector<const DocumentPrompts*> of_sources;
  for (const DocumentPrompts& prompts : of_sources_) {
    there.push_back(prompts.count());
    of_sources.push_back(&prompts);
  }
  const std::vector<uint64_t> counts = evaluated_sequences(
      SourceShares(weights), there, static_cast<uint64_t>(std::max<int64_t>(1, run_.recipe.evaluation.sequences)));
  const PromptSet set(dataset_, of_sources, *run_.tokenizer);
  std::vector<Prompt> prompts;
  for (size_t i = 0; i < counts.size(); ++i)
    for (uint64_t number = 0; number < counts[i]; ++number)
      prompts.push_back(set.at(of_sources_[i].window(number).offset));
  EvaluationResult result;
  if (prompts.empty()) return result;
  CompletionSampler sampler(run_.model, run_.recipe, run_.tokenizer->vocabulary_size(), end_tokens_);
  std::vector<std::vector<int32_t>> beginnings;
  for (const Prompt& prompt : prompts) beginnings.push_back(prompt.tokens);
  const auto together = static_cast<size_t>(sampler.side_by_side());
  beginnings.resize((beginnings.size() + together - 1) / together * together, beginnings.back());
  const std::vector<SampledTokens> sampled = sampler.sample(beginnings, 0, true);
  std::vector<JudgedCompletion> judged;
  for (size_t i = 0; i < prompts.size(); ++i)
    judged.push_back({prompts[i].record, set.text_of(prompts[i].tokens, sampled[i].tokens),
                      "the completion of validation " + prompts[i].name});
  for (const double reward : judge_.judge(judged)) result.reward += reward / static_cast<double>(prompts.size());
  result.completions = static_cast<int64_t>(prompts.size());
  return result;
}

}  // namespace causeway::train
