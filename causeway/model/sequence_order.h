// In which order batches hold the positions of a sequence that ranks share.
//
// Ranks along cp hold stretches of equal length. Under a causal mask a later position attends to more than an earlier
// one, so that the last of such stretches has most of the work. Balanced, a sequence is cut into twice as many chunks
// as there are ranks, and the stretch of rank i is chunk i and, behind it, chunk 2 ranks - 1 - i. Method: Llama 3
// (arXiv 2407.21783), section 3.3.2.
#pragma once

#include <cstdint>

#include "causeway/tensor/attention_ops.h"
#include "causeway/tensor/tensor.h"

namespace causeway::model {

// A place is where a batch holds a token within its row, a position where the token stands in its sequence.
class SequenceOrder {
 public:
  SequenceOrder() = default;  // every position at the place of its number
  // Throws Error(kInvalidArgument) where 2 x ranks does not divide the length. One rank: as the default.
  static SequenceOrder balanced(int64_t length, int64_t ranks);

  bool is_plain() const { return ranks_ == 1; }
  int64_t position(int64_t place) const;  // of 0 to length - 1
  Tensor position(const Tensor& place) const;

  // Of masks and scores of positions, those of places.
  MaskFunction of_places(MaskFunction mask) const;
  ScoreFunction of_places(ScoreFunction score) const;

 private:
  int64_t ranks_ = 1;
  int64_t chunk_ = 0;
};

}  // namespace causeway::model
