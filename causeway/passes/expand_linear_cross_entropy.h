// Rewrites linear_cross_entropy into primitives, a chunk of tokens at a time, so that the logits of all tokens never
// exist at once: per chunk the logits, their softmax, the loss (and z-loss), the chunk's dx, and its share of dW (added
// up in f32 in the order of the chunks). The nodes of a chunk precede those of the next, so that its logits' memory is
// used again. Only the outputs that are used are computed. Targets that are negative add nothing to the loss and its
// gradients.
#pragma once

#include "causeway/graph/graph.h"

namespace causeway::passes {

struct ExpandLinearCrossEntropyOptions {
  // What the logits of one chunk may take; as far as `most_logits_bytes` where they have fewer than `logits_rows`
  // tokens otherwise. Chunks are multiples of 64 tokens where that fits; a symbolic number of tokens (or vocabulary)
  // makes one chunk.
  int64_t logits_bytes = int64_t{64} << 20;
  int64_t most_logits_bytes = 0;
  int64_t logits_rows = 1;
  // Store the logits in the type of x instead of f32 (half the memory under mixed precision).
  bool narrow_logits = false;
  // Rows of logits are padded to a multiple of this many, by rows of zeros of the weight and logits of -infinity.
  int64_t vocabulary_multiple = 1;
};

Graph expand_linear_cross_entropy(const Graph& graph, const ExpandLinearCrossEntropyOptions& options);

}  // namespace causeway::passes
