// Prefill and decode: a model's forward pass of tokens whose predecessors are in a KV cache, of several sequences side
// by side.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "causeway/model/key_value_cache.h"
#include "causeway/model/language_model.h"
#include "causeway/tensor/step.h"

namespace causeway::generate {

// What comes after the last token of each sequence.
struct NextTokens {
  Tensor logits;     // f32 [B, V]
  Tensor likeliest;  // i32 [B]: the first of the tokens with the largest logit; -1 where a logit is not finite
};

class CachedForward {
 public:
  // Of `sequences` of at most `longest` tokens: the cache has room for the next power of two, and for no more than the
  // model's longest sequence; for that where all layers have windows and a longer one takes no more memory. The
  // likeliest token is one of the first `vocabulary`. The model outlives it. `casts` as in StepOptions. Throws
  // Error(kResource) when the device has no room for the cache.
  CachedForward(const LanguageModel& model, const PipelineOptions& pipeline, int64_t sequences, int64_t longest,
                int64_t vocabulary, const std::shared_ptr<CastTensors>& casts);

  // Beginnings of sequences; an empty one is no sequence.
  NextTokens begin(std::span<const std::vector<int32_t>> beginnings);
  // The token of each sequence at its position, negative where there is none. What it returns the next call writes
  // over.
  NextTokens go_on(std::span<const int32_t> tokens, std::span<const int32_t> positions);
  // Forgets all sequences.
  void clear() { cache_.clear(); }

  int64_t sequences() const { return cache_.sequences(); }
  int64_t vocabulary() const { return vocabulary_; }
  int64_t capacity() const { return cache_.capacity(); }
  // Tokens that layers with windows keep, where those are fewer; 0: there is no such layer.
  int64_t ring() const { return cache_.ring(); }
  int64_t cache_bytes() const { return cache_.bytes(); }

  // The program behind go_on() while sequences have up to `length` tokens, what its symbols are then, and the seconds
  // of each of its kernels.
  Program& program(int64_t length);
  SymbolBindings sizes(int64_t length);
  std::vector<double> kernel_seconds(int64_t length);

 private:
  std::vector<Tensor> next_tokens(const Tensor& logits) const;
  // Arguments of the step for sequences up to that length: tokens, positions, cached positions where a layer keeps all,
  // and slots of rings where one has such.
  std::vector<Tensor> arguments(int64_t length);

  KeyValueCache cache_;
  int64_t vocabulary_;
  Step begin_;     // tokens and positions i32 [B, T], the last of each row [B] -> NextTokens
  Step continue_;  // tokens and positions i32 [B, 1], what arguments() says -> NextTokens
  // Of continue_, which is replayed where they stay at their addresses.
  Tensor tokens_, positions_, cached_positions_, ring_slots_;
};

}  // namespace causeway::generate
