// What a device's kernels would have of the sizes that are a pass's to choose. It is part of the description of an
// architecture, so that passes need to know no target. The figures stand in preferred_sizes.cpp and
// gpu_architecture.cpp: one that changes compiles one file.
#pragma once

#include <cstdint>

#include "causeway/namespaces.h"

namespace causeway::device {

struct PreferredSizes {
  // The logits of a whole batch are never held at once: what those of one chunk of tokens may take, and what they may
  // where the chunk has fewer tokens than `logits_rows` otherwise. Every chunk reads the output layer's weight twice
  // and writes its gradient, and all but the first read that: with two processors of a Xeon about the time of 270
  // tokens.
  int64_t logits_bytes = 0;
  int64_t most_logits_bytes = 0;
  int64_t logits_rows = 0;
  // Rows of logits are padded to a multiple of this many elements: TMA reads rows that begin at
  // multiples of 16 bytes, and matrix instructions want whole tiles.
  int64_t vocabulary_multiple = 1;
  // Matrices of 8-bit floats have sides that are multiples of this: rows of TMA's boxes are 16 bytes
  // in shared memory.
  int64_t f8_multiple = 1;
  // Whether block-scaled GEMMs of 8-bit floats (scaled_dot) have kernels.
  bool f8_blocks = false;
  // Whether kernels may copy operands of f32 that are rounded to tf32 to lie along what is summed over, because large
  // GEMMs are so much faster then.
  bool tf32_along_k = false;

  // The most updates of a sum by index that are compared with each other, so that rows without one take no memory
  // (passes/sparse_gradients.h).
  int64_t sparse_updates = 0;

  bool operator==(const PreferredSizes&) const = default;
};

// A processor's.
const PreferredSizes& preferred_sizes_of_processors();

}  // namespace causeway::device
