// How the blocks of attention_one_query.h share keys, for the kernel and for the host that launches it.
#pragma once

#include "causeway/kernels/types.h"

constexpr int kOneQueryThreads = 512;  // at least, that share a multiprocessor where there are enough blocks

struct OneQueryAttentionTile {
  int waves = 4;
  int heads = 1;       // that share keys, of a block
  int most_parts = 1;  // that a head's keys are cut into, each of which is a block's

  constexpr bool operator==(const OneQueryAttentionTile&) const = default;
};

// A part of fewer keys is read sooner than its results are combined with others.
constexpr int64_t kLeastKeysOfPart = 256;

// Into how many parts the keys are cut.
constexpr int64_t one_query_parts(int64_t keys, int64_t most) {
  const int64_t parts = keys / kLeastKeysOfPart;
  return parts < 1 ? 1 : parts < most ? parts : most;
}

// What a block leaves of its part, in floats: the largest score, in powers of two, the sum of weights relative to it,
// and the weighted values.
constexpr int64_t one_query_part_floats(int64_t head_dim) { return 2 + head_dim; }

// Of blocks of so many heads: each wave's largest scores, sums and weighted values.
constexpr int64_t one_query_shared_bytes(int64_t head_dim, int waves, int heads) {
  return heads * waves * one_query_part_floats(head_dim) * 4;
}
