// A short text through a model: what says whether two copies of its weights are the same model.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "causeway/formats/tokenizer/tokenizer.h"
#include "causeway/model/language_model.h"
#include "causeway/tensor/step.h"

namespace causeway::train {

struct ProbeTokens {
  std::string text;  // empty where there is no tokenizer
  std::vector<int32_t> tokens;
};

// Of the tokenizer's text, or without one tokens spread over the vocabulary; at most as many as the model can take.
ProbeTokens probe_tokens(const ModelConfig& config, const Tokenizer* tokenizer);

class ModelProbe {
 public:
  // The model, a whole one, outlives it. Computes in f32 in the current context.
  ModelProbe(const LanguageModel& model, ProbeTokens tokens);

  const ProbeTokens& tokens() const { return tokens_; }
  // [tokens, vocabulary], of the model's weights as they are now.
  std::vector<float> logits();

 private:
  ProbeTokens tokens_;
  Step step_;
};

// How far logits are from those they should be.
struct ProbeDifference {
  double largest = 0;   // of one logit
  double relative = 0;  // the root of the sum of squares, over that of what they should be
};
ProbeDifference probe_difference(const std::vector<float>& expected, const std::vector<float>& actual);

// Tokens, a hash of the logits' bits and the likeliest tokens after the last one.
nlohmann::ordered_json describe_probe(const ProbeTokens& tokens, const std::vector<float>& logits);

}  // namespace causeway::train
