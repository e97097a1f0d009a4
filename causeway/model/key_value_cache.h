// Keys and values of the tokens that sequences had so far, so that the next token's forward pass computes that token
// alone. They are written in place, by adding to zeros: a position is written once between two calls of clear().
#pragma once

#include <cstdint>
#include <vector>

#include "causeway/model/config.h"
#include "causeway/model/language_model.h"
#include "causeway/tensor/tensor.h"

namespace causeway::model {

class KeyValueCache {
 public:
  // Of `sequences` of at most `capacity` tokens, in the current context. Throws Error(kResource) when its memory cannot
  // hold it.
  KeyValueCache(const ModelConfig& config, int64_t sequences, int64_t capacity, DType dtype);

  struct Layer {
    Tensor keys, values;  // [B, capacity, Hk, D]
  };
  // Inside a Step: the layer's with k and v [B, T, Hk, D] at `positions`, i32 [B, T]. What has a negative position is
  // left out.
  Layer keep(int64_t layer, const Tensor& k, const Tensor& v, const Tensor& positions) const;

  // Zeros, for other sequences.
  void clear();

  int64_t sequences() const { return sequences_; }
  int64_t capacity() const { return capacity_; }
  int64_t bytes() const;

 private:
  int64_t sequences_, capacity_;
  std::vector<Tensor> layers_;  // [B x capacity, 2 x Hk x D]: a token's keys, then its values
};

// q [B, 1, H, D] of tokens at `positions`, i32 [B, 1], to those before them, themselves included, of what is cached:
// [B, 1, H, D]. All of them are among `cached_positions`, i32 [S] with S at most the capacity.
Tensor attend_to_cache(const Tensor& q, const KeyValueCache::Layer& cached, const Tensor& positions,
                       const Tensor& cached_positions, const AttentionForm& form);

}  // namespace causeway::model
