#include "causeway/train/model_review.h"

#include <vector>

#include "causeway/base/console.h"
#include "causeway/train/grpo/reward_evaluation.h"
#include "causeway/train/grpo/rollout_source.h"
#include "causeway/train/preference/preference_evaluation.h"

namespace causeway::train {

ModelReview::ModelReview(const RunParts& run, const TokenDataset* validation, RunLog* log, bool is_first, bool quiet)
    : run_(run),
      validation_(validation),
      log_(log),
      quiet_(quiet),
      speaks_(is_first && !quiet),
      evaluation_("the evaluation", is_first),
      sample_("the sample", is_first) {}

std::optional<double> ModelReview::evaluate(const RunPosition& position) {
  if (!evaluates()) return std::nullopt;
  std::optional<double> loss;
  evaluation_.look(position.step, [&] {
    if (!evaluator_) make_evaluator(position);
    const EvaluationResult result = evaluator_();
    if (log_ != nullptr) log_->evaluation(position.step, position.tokens, result);
    if (result.completions > 0) {
      if (speaks_)
        notice("step {}: validation reward {:.4f} ({} completions)\n", position.step, result.reward,
               result.completions);
      return;
    }
    if (speaks_ && result.pairs > 0)
      notice("step {}: validation loss {:.4f} ({} pairs, {:.2f} % told apart)\n", position.step, result.loss,
             result.pairs, 100 * result.accuracy);
    else if (speaks_)
      notice("step {}: validation loss {:.4f} nats per token ({} targets)\n", position.step, result.loss,
             result.targets);
    loss = result.loss;
  });
  return loss;
}

void ModelReview::make_evaluator(const RunPosition& position) {
  if (run_.recipe.grpo.is_used()) {
    const auto evaluator = std::make_shared<RewardEvaluator>(
        run_, *validation_,
        position.rollouts != nullptr ? position.rollouts->end_tokens : end_tokens_of(run_.recipe, *run_.tokenizer));
    evaluator_ = [evaluator] { return evaluator->run(); };
  } else if (run_.recipe.preference.is_used()) {
    const auto evaluator =
        std::make_shared<PreferenceEvaluator>(run_.model, run_.recipe, *validation_, run_.validation_reference);
    evaluator_ = [evaluator] { return evaluator->run(); };
  } else {
    const auto evaluator = std::make_shared<Evaluator>(run_.model, run_.recipe, *validation_);
    evaluator_ = [evaluator] { return evaluator->run(); };
  }
}

bool ModelReview::samples() const { return run_.tokenizer != nullptr && (!quiet_ || run_.recipe.log.tensorboard); }

void ModelReview::print_sample(const RunPosition& position) {
  if (!samples()) return;
  const Recipe& recipe = run_.recipe;
  const Tokenizer& tokenizer = *run_.tokenizer;
  sample_.look(position.step, [&] {
    // As the documents that the model learns from.
    std::vector<int32_t> prompt = run_.dataset.documents().value_or(DocumentTokens()).before;
    tokenizer.encode_to(recipe.sampling.prompt, prompt);
    if (prompt.empty()) return;
    if (!generator_)
      generator_ = std::make_unique<TextGenerator>(
          run_.model, pipeline_options(recipe), TextGenerator::Attention::kRecomputed, TextGenerator::Weights::kChange);
    SamplingOptions sampling;
    sampling.tokens = recipe.sampling.tokens;
    sampling.temperature = recipe.sampling.temperature;
    sampling.top_k = recipe.sampling.top_k;
    sampling.seed = static_cast<uint64_t>(recipe.train.seed);
    sampling.vocabulary_size = tokenizer.vocabulary_size();
    if (const auto end = tokenizer.end_of_text()) sampling.stop_tokens = {*end};
    std::vector<int32_t> tokens = generator_->generate(prompt, sampling);
    if (!tokens.empty() && sampling.stops_at(tokens.back())) tokens.pop_back();
    const std::string text = recipe.sampling.prompt + tokenizer.decode(tokens);
    if (log_ != nullptr) log_->sample(position.step, text);
    if (speaks_) notice("--- sample at step {} ---\n{}\n---\n", position.step, text);
  });
}

void ModelReview::release() {
  evaluator_ = nullptr;
  generator_.reset();
}

}  // namespace causeway::train
