// Text from a trained model: tokens drawn one after the other, of one prompt or of several side by side.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "causeway/generate/cached_forward.h"
#include "causeway/generate/sampling.h"
#include "causeway/model/language_model.h"
#include "causeway/tensor/step.h"

namespace causeway::generate {

class TextGenerator {
 public:
  // What becomes of a token that was drawn for a prompt: false ends that prompt's text.
  using Emit = std::function<bool(size_t prompt, int32_t token)>;

  enum class Attention {
    kCached,      // keys and values are kept, in memory of the model's device: a token costs its own forward pass
    kRecomputed,  // a token costs the forward pass of all tokens before it; parts of models can do no other
  };

  enum class Weights {
    kStay,    // as they are: those that GEMMs read are cast to what is computed in once, and kept beside the others
    kChange,  // between texts, by training
  };

  // The model outlives the generator. `pipeline` as in training; one program serves every length of prompt and one
  // every token after it, until a text outgrows the cache, whose sizes are powers of two.
  TextGenerator(const LanguageModel& model, const PipelineOptions& pipeline, Attention attention, Weights weights);

  // The tokens that follow each prompt; each is passed to `emit` as soon as it is drawn. A prompt's text does not
  // depend on the others, but for rounding. Beyond the model's longest sequence the oldest tokens are forgotten, and
  // every token costs the forward pass of a whole sequence. Throws Error(kInvalidArgument) for an empty prompt, a token
  // that the model does not have or an option out of its range, Error(kCorrupt) when the model's logits are not finite,
  // Error(kResource) when the device has no room for the cache.
  // The random numbers of a prompt are those of its place, counted from `first_place`: prompts that come in several
  // calls have the numbers that they would have in one.
  std::vector<std::vector<int32_t>> generate(std::span<const std::vector<int32_t>> prompts,
                                             const SamplingOptions& options, const Emit& emit = {},
                                             uint64_t first_place = 0);
  // From then on it is shown each token with the model's logits that it was drawn by, f32 [V].
  using Watch = std::function<void(size_t prompt, int32_t token, std::span<const float> logits)>;
  void watch(Watch watch) { watch_ = std::move(watch); }

  // Of one.
  std::vector<int32_t> generate(const std::vector<int32_t>& prompt, const SamplingOptions& options);

 private:
  struct Text;

  bool fits_cache(const Text& text) const;
  void open_cache(const std::vector<Text>& texts, const SamplingOptions& options);
  // Of the texts that fit the cache; of others it means nothing.
  NextTokens first_tokens(const std::vector<Text>& texts);
  NextTokens continued_tokens(const std::vector<Text>& texts);
  std::vector<float> recomputed_logits(const Text& text);
  static std::optional<int32_t> draw(const Text& text, std::span<const float> logits, const SamplingOptions& options);
  // Of every text that has not ended; nothing where a logit is not finite.
  std::vector<std::optional<int32_t>> next_tokens(const std::vector<Text>& texts, bool are_first,
                                                  const SamplingOptions& options);

  const LanguageModel& model_;
  const PipelineOptions pipeline_;
  const Attention attention_;
  const std::shared_ptr<CastTensors> casts_;
  Step next_logits_;  // i32 [1, T] -> f32 [V]
  Watch watch_;
  std::unique_ptr<CachedForward> cached_;
};

}  // namespace causeway::generate
