// Text from a trained model: tokens drawn one after the other.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "causeway/model/language_model.h"
#include "causeway/tensor/step.h"

namespace causeway::generate {

struct SamplingOptions {
  int64_t tokens = 200;      // to generate
  double temperature = 1.0;  // 0: always the most likely token
  int64_t top_k = 0;         // draw among this many likeliest tokens; 0: all
  uint64_t seed = 1;         // the same seed and model give the same text
  int64_t stop_token = -1;   // generation ends after this token; -1: never
  // Ids from this one on are never drawn: a model's vocabulary may be larger than its tokenizer's. 0: the model's own.
  int64_t vocabulary_size = 0;
};

class TextGenerator {
 public:
  // The model outlives the generator. `pipeline` as in training; one program serves every length.
  TextGenerator(const LanguageModel& model, const PipelineOptions& pipeline);

  // The tokens that follow `prompt`; each is passed to `emit` as soon as it is drawn. Beyond the model's longest
  // sequence the oldest tokens are forgotten. Throws Error(kInvalidArgument) for an empty prompt or a token that the
  // model does not have, Error(kCorrupt) when the model's logits are not finite.
  std::vector<int32_t> generate(std::span<const int32_t> prompt, const SamplingOptions& options,
                                const std::function<void(int32_t)>& emit = {});

 private:
  const LanguageModel& model_;
  Step next_logits_;  // i32 [1, T] -> f32 [V]
};

// The index drawn from softmax(logits / temperature) among the top_k by a uniform number in [0, 1).
int32_t draw_token(std::span<const double> logits, double temperature, int64_t top_k, double uniform);

}  // namespace causeway::generate
