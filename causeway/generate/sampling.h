// Which token follows, drawn from what a model finds likely.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::generate {

// Applied in this order, as Hugging Face transformers does.
struct SamplingOptions {
  int64_t tokens = 200;           // to generate
  double repetition_penalty = 1;  // of tokens that are there: positive logits are divided by it, others multiplied
  double temperature = 1;         // 0: always the most likely token
  int64_t top_k = 0;              // draw among this many likeliest tokens; 0: all
  double top_p = 1;               // among the likeliest whose probabilities reach this together
  double min_p = 0;               // among those of at least this share of the likeliest one's probability
  uint64_t seed = 1;              // the same seed and model give the same text
  // Generation ends after any of these tokens.
  std::vector<int32_t> stop_tokens = {};
  bool stops_at(int32_t token) const { return std::ranges::find(stop_tokens, token) != stop_tokens.end(); }
  // Ids from this one on are never drawn: a model's vocabulary may be larger than its tokenizer's. 0: the model's own.
  int64_t vocabulary_size = 0;
};

// Throws Error(kInvalidArgument) naming the option that is out of its range.
void check_sampling(const SamplingOptions& options);

// The uniform number in (0, 1) that token number `token` of a text is drawn by: of nothing but the seed and the text's
// place.
double uniform_of_token(uint64_t seed, uint64_t place, uint64_t token);

// The index drawn by a uniform number in [0, 1); `before` are the tokens that are there. The logits are finite.
int32_t draw_token(std::span<const float> logits, std::span<const int32_t> before, const SamplingOptions& options,
                   double uniform);

}  // namespace causeway::generate
