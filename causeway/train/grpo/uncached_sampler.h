// Tokens drawn without a KV cache, by the forward pass of training: each token costs that of whole rows, a micro-batch
// side by side. What tokens are drawn by has the bits that training computes (train.mesh_independent), and over a mesh
// weights lie as they do in training.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "causeway/generate/sampling.h"
#include "causeway/model/language_model.h"
#include "causeway/tensor/step.h"
#include "causeway/train/recipe/recipe.h"

namespace causeway::train {

class UncachedSampler {
 public:
  // Both outlive it.
  UncachedSampler(const LanguageModel& model, const Recipe& recipe);

  // The tokens that follow each prompt, of as many as are whole micro-batches; `options` have the temperature 1, or 0
  // for the likeliest tokens: logits are over grpo.temperature already. `watch` is shown each token with what it was
  // drawn by, f32 [V]. Random numbers are those of places from `first_place` on. Throws Error(kCorrupt) where logits
  // are not finite. Over a mesh every rank calls it, and gets the same.
  using Watch = std::function<void(size_t prompt, int32_t token, std::span<const float> logits)>;
  std::vector<std::vector<int32_t>> generate(std::span<const std::vector<int32_t>> prompts,
                                             const SamplingOptions& options, const Watch& watch, uint64_t first_place);

 private:
  // Logits of what follows each row's tokens, row-major [rows, V].
  std::vector<float> next_logits(std::span<const std::vector<int32_t>> rows);

  const Recipe& recipe_;
  Step step_;  // tokens i32 [rows, sequence_length], the last of each row i32 [rows] -> f32 [rows, V]
  std::vector<Tensor> arguments_;
};

}  // namespace causeway::train
