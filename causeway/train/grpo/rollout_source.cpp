#include "causeway/train/grpo/rollout_source.h"

#include <algorithm>
#include <filesystem>

#include "causeway/base/error.h"
#include "causeway/train/grpo/advantages.h"
#include "causeway/train/hugging_face/model_directory.h"
#include "causeway/train/step/training_step.h"

namespace causeway::train {
namespace {

const Tokenizer& tokenizer_of_run(const RunParts& run) {
  if (run.tokenizer == nullptr)
    throw Error(ErrorKind::kInvalidArgument,
                "the data has no tokenizer that can be read, and completions are judged as texts",
                run.dataset.path().string(), "Prepare it with a tokenizer.");
  return *run.tokenizer;
}

std::vector<const DocumentPrompts*> prompts_of(const TrainingData& data) {
  std::vector<const DocumentPrompts*> prompts;
  for (size_t i = 0; i < data.dataset.sources().size(); ++i) prompts.push_back(data.order.prompts(i));
  return prompts;
}

}  // namespace

std::vector<int32_t> end_tokens_of(const Recipe& recipe, const Tokenizer& tokenizer) {
  std::error_code code;
  if (!recipe.model_from.empty() && std::filesystem::is_directory(recipe.model_from, code))
    return end_tokens_in(recipe.model_from, tokenizer);
  return end_tokens_of_tokenizer(tokenizer);
}

RolloutSource::RolloutSource(const RunParts& run, const TrainingData& data, const LanguageModel* reference,
                             const Ranks& ranks, const RunPosition& first)
    : run_(run),
      data_(data),
      ranks_(ranks),
      cursor_(first.data_cursor),
      // A run that goes on has those that it began with, whatever has become of model.from.
      end_tokens_(first.rollouts != nullptr ? first.rollouts->end_tokens
                                            : end_tokens_of(run.recipe, tokenizer_of_run(run))),
      prompts_(data.dataset, prompts_of(data), tokenizer_of_run(run)),
      judge_(run.recipe.grpo, ranks),
      sampler_(run.model, run.recipe, tokenizer_of_run(run).vocabulary_size(), end_tokens_),
      pass_(run.model, reference, run.recipe) {
  if (first.rollouts == nullptr || first.rollouts->rollout == nullptr) return;
  const Rollout& begun = *first.rollouts->rollout;
  // With another size of batches, or fewer steps on each, it is of no use any more.
  const bool fits = begun.completions.size() == static_cast<size_t>(run.recipe.train.batch_size) &&
                    first.rollouts->steps < run.recipe.grpo.num_iterations && run.recipe.grpo.has_older_policy();
  if (!fits) {
    cursor_ = begun.first_sample + begun.completions.size();
    return;
  }
  rollout_ = first.rollouts->rollout;
  steps_ = first.rollouts->steps;
}

void RolloutSource::require_records() const {
  ranks_.on_first([&] { prompts_.require_records(judge_.reward()); });
}

RolloutSource::Next RolloutSource::next(int64_t step) {
  if (rollout_ == nullptr) {
    rollout_ = sample(step);
    steps_ = 0;
  }
  Next next;
  next.batch = batch_of_rollout(*rollout_, run_.recipe, run_.step.own_rows());
  next.figures = rollout_->figures;
  auto state = std::make_shared<RolloutState>();
  state->end_tokens = end_tokens_;
  if (++steps_ < run_.recipe.grpo.num_iterations) {
    state->rollout = rollout_;
    state->steps = steps_;
  } else {
    cursor_ = rollout_->first_sample + rollout_->completions.size();
    rollout_ = nullptr;
  }
  next.cursor = cursor_;
  next.state = std::move(state);
  return next;
}

std::shared_ptr<const Rollout> RolloutSource::sample(int64_t step) {
  const Recipe& recipe = run_.recipe;
  auto rollout = std::make_shared<Rollout>();
  rollout->first_sample = cursor_;
  std::vector<Prompt> prompts;  // of each group
  ranks_.together([&] {
    for (int64_t row = 0; row < recipe.train.batch_size; row += recipe.grpo.num_generations)
      prompts.push_back(prompts_.at(data_.order.windows(cursor_ + static_cast<uint64_t>(row)).front().offset));
  });
  ranks_.enter(step, "sampling");
  std::vector<std::vector<int32_t>> beginnings;
  for (const Prompt& prompt : prompts)
    beginnings.insert(beginnings.end(), static_cast<size_t>(recipe.grpo.num_generations), prompt.tokens);
  const std::vector<SampledTokens> sampled = sampler_.sample(beginnings, cursor_);
  double entropy = 0, tokens = 0, truncated = 0;
  for (size_t row = 0; row < sampled.size(); ++row) {
    const SampledTokens& one = sampled[row];
    rollout->completions.push_back({.prompt = beginnings[row],
                                    .tokens = one.tokens,
                                    .is_truncated = one.is_truncated,
                                    .sampled = one.log_probabilities});
    entropy += one.entropy;
    tokens += static_cast<double>(one.tokens.size());
    truncated += one.is_truncated ? 1 : 0;
  }
  ranks_.enter(step, "reward");
  judge(prompts, step, *rollout);
  // Drawn without a cache, tokens have the log-probabilities of training itself.
  const bool samples_as_training = !samples_with_cache(recipe);
  pass_.run(rollout->completions, samples_as_training || recipe.grpo.has_older_policy());
  for (Completion& one : rollout->completions) {
    if (samples_as_training) one.sampled = one.older;
    if (!recipe.grpo.has_older_policy()) one.older.clear();
  }
  const auto rows = static_cast<double>(sampled.size());
  rollout->figures.emplace_back("entropy", entropy / tokens);
  rollout->figures.emplace_back("completion_length", tokens / rows);
  rollout->figures.emplace_back("truncated", truncated / rows);
  return rollout;
}

void RolloutSource::judge(const std::vector<Prompt>& prompts, int64_t step, Rollout& rollout) {
  const auto group = static_cast<size_t>(run_.recipe.grpo.num_generations);
  std::vector<JudgedCompletion> judged;
  for (size_t row = 0; row < rollout.completions.size(); ++row) {
    const Prompt& prompt = prompts[row / group];
    const Completion& one = rollout.completions[row];
    judged.push_back({prompt.record, prompts_.text_of(one.prompt, one.tokens),
                      fmt::format("completion {} of {} (step {})", row % group + 1, prompt.name, step)});
  }
  const std::vector<double> rewards = judge_.judge(judged);
  const Advantages advantages = compute_advantages(rewards, group, run_.recipe.grpo.scale_rewards);
  for (size_t row = 0; row < rewards.size(); ++row) {
    rollout.completions[row].reward = rewards[row];
    rollout.completions[row].advantage = advantages.values[row];
  }
  rollout.figures = {{"reward", advantages.mean_reward},
                     {"reward_std", advantages.reward_deviation},
                     {"zero_std_groups", advantages.share_of_equals}};
}

}  // namespace causeway::train
