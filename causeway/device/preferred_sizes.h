// What a device's kernels would have of the sizes that are a pass's to choose. It is part of the description of an
// architecture, so that passes need to know no target. Defaults are a processor's.
#pragma once

#include <cstdint>

#include "causeway/namespaces.h"

namespace causeway::device {

struct PreferredSizes {
  // The logits of a whole batch are never held at once: what those of one chunk of tokens may take, and what they may
  // where the chunk has fewer tokens than `logits_rows` otherwise. Every chunk reads the output layer's weight twice
  // and writes its gradient, and all but the first read that: with two processors of a Xeon about the time of 270
  // tokens.
  int64_t logits_bytes = int64_t{128} << 20;
  int64_t most_logits_bytes = int64_t{256} << 20;
  int64_t logits_rows = 2048;
  // Rows of logits are padded to a multiple of this many elements: TMA reads rows that begin at
  // multiples of 16 bytes, and its matrix instructions want whole tiles.
  int64_t vocabulary_multiple = 1;
  // Matrices of 8-bit floats have sides that are multiples of this: rows of TMA's boxes are 16 bytes
  // in shared memory.
  int64_t f8_multiple = 16;
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

// By its bytes and an H200's rates that gradient takes a tenth of the time of a chunk of 2,048, a fortieth of 8,192.
inline constexpr PreferredSizes kPreferredSizesOfGpus = {.logits_bytes = int64_t{512} << 20,
                                                         .most_logits_bytes = int64_t{2} << 30,
                                                         .logits_rows = 8192,
                                                         .vocabulary_multiple = 64,
                                                         .sparse_updates = 16384};

}  // namespace causeway::device
