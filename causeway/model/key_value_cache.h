// Keys and values of the tokens that sequences had so far, so that the next token's forward pass computes that token
// alone. They are written in place. A layer with a window keeps those that it can still attend to, in a ring.
#pragma once

#include <cstdint>
#include <vector>

#include "causeway/model/language_model.h"
#include "causeway/tensor/tensor.h"

namespace causeway::model {

class KeyValueCache {
 public:
  // Of `sequences` of at most `capacity` tokens, in the current context. A ring has as many slots as the window has
  // positions, rounded up to a multiple of `block`; where that is not less than the capacity there is none. Throws
  // Error(kResource) when its memory cannot hold it.
  KeyValueCache(const LanguageModel& model, int64_t sequences, int64_t capacity, int64_t block, DType dtype);

  struct Layer {
    Tensor keys, values;   // [B, slots, Hk, D]: position p is in slot p
    bool is_ring = false;  // in slot p modulo the slots, until p + slots takes its place
  };
  // Inside a Step: the layer's with k and v [B, T, Hk, D] at `positions`, i32 [B, T], of each row neighbours, but for
  // negative ones, which are left out.
  Layer keep(int64_t layer, const Tensor& k, const Tensor& v, const Tensor& positions) const;

  // Zeros, for other sequences.
  void clear();

  int64_t sequences() const { return sequences_; }
  int64_t capacity() const { return capacity_; }
  // Slots of each layer's ring; 0: no layer has one.
  int64_t ring() const { return ring_; }
  // Whether there are layers without one.
  bool has_whole_layers() const;
  int64_t bytes() const;

 private:
  struct KeptLayer {
    Tensor tokens;  // [2 x Hk, B x slots, D] with heads first, else [B x slots, 2 x Hk x D]
    bool is_ring;
  };

  int64_t sequences_, capacity_, ring_ = 0;
  // A processor reads a head's keys fast where they follow each other; a GPU reads a token's, then its values, at once.
  bool heads_first_;
  std::vector<KeptLayer> layers_;
};

// q [B, 1, H, D] of tokens at `positions`, i32 [B, 1], to those before them, themselves included, of what is cached:
// [B, 1, H, D]. All of them are in `slots`, i32 [S], 0 to S - 1.
Tensor attend_to_cache(const Tensor& q, const KeyValueCache::Layer& cached, const Tensor& positions,
                       const Tensor& slots, const AttentionForm& form);

}  // namespace causeway::model
