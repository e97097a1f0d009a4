// How likely a model finds given tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "causeway/evaluation/token_requests.h"
#include "causeway/model/language_model.h"
#include "causeway/tensor/step.h"

namespace causeway::evaluation {

struct Likelihood {
  double log = 0;          // sum over the scored tokens of log p(token | those before it), in nats
  bool is_greedy = false;  // each scored token is the likeliest one (of equal ones the first)
};

struct LikelihoodOptions {
  PipelineOptions pipeline = {};
  int64_t batch_tokens = 3072;  // that the model is run on at once, padding included
};

// Called with how many requests are done.
using LikelihoodProgress = std::function<void(size_t done)>;

class LikelihoodModel {
 public:
  // The model, a whole one, outlives it. Computes in its context.
  LikelihoodModel(const LanguageModel& model, const LikelihoodOptions& options);

  // One for each request, in order. Requests are sorted by length and padded to one of a few lengths (padded_length()),
  // for each of which a program is compiled once; such that read the same tokens are computed once. Which requests
  // stand together changes a result by rounding at most, and by nothing where they are padded to the same length.
  // Throws Error(kInvalidArgument) for a token that the model does not have and for more tokens than it takes,
  // Error(kCorrupt) where the model's logits are not finite.
  std::vector<Likelihood> of(std::span<const TokenRequest> requests, const LikelihoodProgress& progress = {});

 private:
  // Of one row of a batch: a position whose next token is scored.
  struct Place {
    int32_t position = 0;  // in the batch's tokens
    int32_t target = 0;
    size_t request = 0;
  };
  void require_tokens(const TokenRequest& request) const;
  void score(const Tensor& hidden, std::span<const Place> places, std::vector<Likelihood>& results);

  // Of one length: i32 [rows, length], written anew for each batch, so that what was launched for one serves the next.
  Tensor& batch(int64_t rows, int64_t length);

  const LanguageModel& model_;
  int64_t batch_tokens_;
  int64_t places_;      // scored at once
  Step hidden_states_;  // i32 [rows, length] -> f32 [rows x length, width]
  Step score_;          // that, positions and targets i32 [places] -> log p f32 [places], likeliest i32 [places]
  std::map<int64_t, Tensor> batches_;  // by length
  Tensor positions_, targets_;         // i32 [places]
};

// The length that a batch of rows of at most `length` tokens has: 16, 24, 32, 48, 64, ..., but no more than `most`.
int64_t padded_length(int64_t length, int64_t most);

}  // namespace causeway::evaluation
