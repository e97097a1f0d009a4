// FLOPs of a graph, counted from its contractions. Elementwise work, norms and softmax are not counted, as is usual for
// model FLOPs utilization.
//
//   dot                    2 m n k for each batch element
//   attention              4 pairs D: q.k and p.v, over the attended (query, key) pairs of all batch elements and heads
//   attention_gradient     10 pairs D: q.k again, dp, dv, dq, dk
//   linear_cross_entropy   2 N C V for the logits (forward), 2 N C V each for dx and dW where used (backward)
//
// Attended pairs are counted by evaluating the mask itself: every pair up to a million, evenly spaced rows of queries
// beyond that. The mask of a captured tensor (documents, say) depends on data; then `captured_mask_density` is assumed
// and the result says so.
//
// Counted before recompute() these are the model's FLOPs; after it, what the hardware does (clones count as backward).
#pragma once

#include "causeway/graph/graph.h"

namespace causeway {

struct FlopOptions {
  SymbolBindings bindings;             // of every symbol in the graph
  double captured_mask_density = 1.0;  // attended fraction of all pairs where a mask depends on data
};

struct FlopCount {
  double forward = 0;            // nodes that are not marked backward
  double backward = 0;           // backward nodes, and the gradients of linear_cross_entropy
  double attended_pairs = 0;     // of all forward attention nodes together
  double attention_pairs = 0;    // the same without masks: density is attended_pairs / attention_pairs
  bool density_assumed = false;  // some mask depends on data

  double total() const { return forward + backward; }
};

FlopCount count_flops(const Graph& graph, const FlopOptions& options);

// How many (batch, head, query, key) the mask lets attend, of batch * heads * queries * keys; negative when it depends
// on captured tensors.
double count_attended_pairs(const AttentionSpec& spec, int64_t batch, int64_t heads, int64_t queries, int64_t keys);

}  // namespace causeway
