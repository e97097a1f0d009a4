// A model's forward pass of tokens whose predecessors are in a key-value cache, of several sequences side by side.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "causeway/model/key_value_cache.h"
#include "causeway/model/language_model.h"
#include "causeway/tensor/step.h"

namespace causeway::generate {

class CachedForward {
 public:
  // Of `sequences` of at most `longest` tokens: the cache has room for the next power of two, and for no more than the
  // model's longest sequence. The model outlives it. `casts` as in StepOptions. Throws Error(kResource) when the device
  // has no room for the cache.
  CachedForward(const LanguageModel& model, const PipelineOptions& pipeline, int64_t sequences, int64_t longest,
                std::shared_ptr<CastTensors> casts);

  // Beginnings of sequences, behind one another in one row each, as long as the longest; an empty one is no sequence.
  // Returns the logits f32 [B, V] of the tokens that follow.
  Tensor begin(std::span<const std::vector<int32_t>> beginnings);
  // The token of each sequence at its position, i32 [B] both, a negative position where there is none. Returns as
  // begin(), in a tensor that the next call writes over.
  const Tensor& go_on(std::span<const int32_t> tokens, std::span<const int32_t> positions);
  // Forgets all sequences.
  void clear() { cache_.clear(); }

  int64_t sequences() const { return cache_.sequences(); }
  int64_t capacity() const { return cache_.capacity(); }
  int64_t cache_bytes() const { return cache_.bytes(); }

  // The program behind go_on() while sequences have up to `length` tokens, and the seconds of each of its kernels.
  Program& program(int64_t length);
  std::vector<double> kernel_seconds(int64_t length);

 private:
  // Arguments of the step for sequences up to that length.
  std::vector<Tensor> arguments(int64_t length);

  KeyValueCache cache_;
  Step begin_;     // tokens and positions i32 [B, T], the last of each row [B] -> f32 [B, V]
  Step continue_;  // tokens and positions i32 [B, 1], cached positions [S] -> f32 [B, V]
  // Of continue_, which is replayed where they stay at their addresses.
  Tensor tokens_, positions_, cached_positions_;
};

}  // namespace causeway::generate
