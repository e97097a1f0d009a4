// How the blocks of attention_one_query.h share keys, for the kernel and for the host that launches it.
#pragma once

#include "causeway/kernels/types.h"

// A part of fewer keys is read sooner than its results are combined with others.
constexpr int64_t kLeastKeysOfPart = 256;

// Into how many parts the keys are cut, each of which is a block's.
constexpr int64_t one_query_parts(int64_t keys, int64_t most) {
  const int64_t parts = keys / kLeastKeysOfPart;
  return parts < 1 ? 1 : parts < most ? parts : most;
}

// What a block leaves of its part, in floats: the largest score, in powers of two, the sum of weights relative to it,
// and the weighted values.
constexpr int64_t one_query_part_floats(int64_t head_dim) { return 2 + head_dim; }
