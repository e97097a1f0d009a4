#include "causeway/train/grpo/completion_sampler.h"

#include <algorithm>
#include <cmath>

#include "causeway/base/error.h"
#include "causeway/train/step/training_step.h"

namespace causeway::train {
namespace {

// Of the token, and the entropy of all, in nats.
struct DrawnBy {
  double log_probability = 0, entropy = 0;
};

DrawnBy drawn_by(std::span<const float> logits, int32_t token, double temperature) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0, weighed = 0;
  for (const float logit : logits) {
    const double shifted = (static_cast<double>(logit) - largest) / temperature, weight = std::exp(shifted);
    sum += weight;
    weighed += weight * shifted;
  }
  const double log_sum = std::log(sum);
  return {(static_cast<double>(logits[static_cast<size_t>(token)]) - largest) / temperature - log_sum,
          log_sum - weighed / sum};
}

}  // namespace

CompletionSampler::CompletionSampler(const LanguageModel& model, const Recipe& recipe, int64_t vocabulary,
                                     std::vector<int32_t> end_tokens)
    : recipe_(recipe), vocabulary_(vocabulary), end_tokens_(std::move(end_tokens)) {
  if (samples_with_cache(recipe)) {
    cached_ = std::make_unique<TextGenerator>(model, pipeline_options(recipe), TextGenerator::Attention::kCached,
                                              TextGenerator::Weights::kChange);
  } else {
    uncached_ = std::make_unique<UncachedSampler>(model, recipe);
  }
}

int64_t CompletionSampler::side_by_side() const { return sampled_side_by_side(recipe_); }

std::vector<SampledTokens> CompletionSampler::sample(std::span<const std::vector<int32_t>> prompts,
                                                     uint64_t first_place, bool greedy) {
  const auto together = static_cast<size_t>(side_by_side());
  CAUSEWAY_CHECK(prompts.size() % together == 0, "{} prompts by {}", prompts.size(), together);
  SamplingOptions options;
  options.tokens = recipe_.grpo.max_completion_length;
  // On the device logits are over it already where bits count.
  const double on_host = uncached_ != nullptr ? 1 : recipe_.grpo.temperature;
  options.temperature = greedy ? 0 : on_host;
  options.top_k = greedy ? 0 : recipe_.grpo.top_k;
  options.top_p = greedy ? 1 : recipe_.grpo.top_p;
  options.seed = static_cast<uint64_t>(recipe_.train.seed);
  options.stop_tokens = end_tokens_;
  options.vocabulary_size = vocabulary_;
  std::vector<SampledTokens> sampled(prompts.size());
  for (size_t first = 0; first < prompts.size(); first += together) {
    const auto note = [&](size_t prompt, int32_t token, std::span<const float> logits) {
      const DrawnBy by = drawn_by(logits, token, on_host);
      SampledTokens& one = sampled[first + prompt];
      one.log_probabilities.push_back(static_cast<float>(by.log_probability));
      one.entropy += by.entropy;
      if (!watch_) return;
      std::vector<float> over_temperature(logits.begin(), logits.end());
      for (float& logit : over_temperature) logit = static_cast<float>(logit / on_host);
      watch_(first + prompt, token, over_temperature);
    };
    const std::span some = prompts.subspan(first, together);
    std::vector<std::vector<int32_t>> tokens;
    if (uncached_ != nullptr) {
      tokens = uncached_->generate(some, options, note, first_place + first);
    } else {
      cached_->watch(note);
      tokens = cached_->generate(some, options, {}, first_place + first);
      cached_->watch({});
    }
    for (size_t i = 0; i < some.size(); ++i) {
      SampledTokens& one = sampled[first + i];
      one.tokens = std::move(tokens[i]);
      one.is_truncated = one.tokens.empty() || !options.stops_at(one.tokens.back());
    }
  }
  return sampled;
}

}  // namespace causeway::train
