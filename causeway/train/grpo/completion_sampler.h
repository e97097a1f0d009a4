// Samples completions from the model that is trained, with its weights as they are: in the same process, with no copy
// of them. On one device with a KV cache (causeway/generate), and over a mesh or where bits are not to depend on one by
// the forward pass of training (UncachedSampler).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "causeway/generate/text_generation.h"
#include "causeway/model/language_model.h"
#include "causeway/train/grpo/uncached_sampler.h"
#include "causeway/train/recipe/recipe.h"

namespace causeway::train {

struct SampledTokens {
  std::vector<int32_t> tokens;  // with the one that ended them
  // log p of each, of all tokens that the model has, by the logits that it was drawn by, over the temperature.
  std::vector<float> log_probabilities;
  double entropy = 0;         // nats, the sum over the tokens of that of what each was drawn by
  bool is_truncated = false;  // none of the end tokens came
};

class CompletionSampler {
 public:
  // Model and recipe outlive it. Tokens from `vocabulary` on are never drawn. Any of `end_tokens` ends a completion.
  CompletionSampler(const LanguageModel& model, const Recipe& recipe, int64_t vocabulary,
                    std::vector<int32_t> end_tokens);

  // Of each prompt a completion, of as many prompts as train.batch_size, or as are whole batches of side_by_side().
  // Random numbers are a function of train.seed, the place of a prompt, counted from `first_place`, and the token's
  // number; with `greedy` always the likeliest token is taken. Throws Error(kCorrupt) where logits are not finite,
  // Error(kResource) where the device has no room for the cache. Over a mesh every rank calls it, and gets the same.
  std::vector<SampledTokens> sample(std::span<const std::vector<int32_t>> prompts, uint64_t first_place,
                                    bool greedy = false);

  // How many completions are sampled together.
  int64_t side_by_side() const;
  const std::vector<int32_t>& end_tokens() const { return end_tokens_; }

  // Is shown the logits over the temperature that each token is drawn by, f32 [V]: for tests.
  using Watch = std::function<void(size_t prompt, int32_t token, std::span<const float> logits)>;
  void watch(Watch watch) { watch_ = std::move(watch); }

 private:
  const Recipe& recipe_;
  const int64_t vocabulary_;
  const std::vector<int32_t> end_tokens_;
  std::unique_ptr<TextGenerator> cached_;
  std::unique_ptr<UncachedSampler> uncached_;
  Watch watch_;
};

}  // namespace causeway::train
