// FLOPs of a graph, counted from its contractions. Elementwise work, norms and softmax are not counted, as is usual for
// model FLOPs utilization. What the optimizer multiplies is counted for itself.
//
//   dot                    2 m n k for each batch element
//   attention              2 pairs (D + V): q.k and p.v, over the attended (query, key) pairs of all batch elements and
//                          heads; V: of values
//   attention_gradient     2 pairs (3 D + 2 V): q.k again, dq and dk; dp and dv
//   linear_cross_entropy   2 N C V for the logits (forward), 2 N C V each for dx and dW where used (backward)
//
// Attended pairs are counted from the mask itself (causeway/passes/attended_pairs.h). Where the mask reads captured
// tensors (documents, say) data decides; then the FLOPs are those of the most pairs that it could let attend, and the
// result says so. A stricter mask never counts more.
//
// Counted before recompute() these are the model's FLOPs; after it, what the hardware does (clones count as backward).
#pragma once

#include <map>
#include <string>

#include "causeway/graph/graph.h"

namespace causeway::passes {

struct FlopCount {
  double forward = 0;          // nodes that are not marked backward
  double backward = 0;         // backward nodes, and the gradients of linear_cross_entropy
  double attended_pairs = 0;   // of all forward attention nodes together
  double attention_pairs = 0;  // the same without masks
  bool at_most = false;        // some mask depends on data: FLOPs and attended pairs are an upper bound
  bool sampled = false;        // some mask was counted in a sample of its rows
  double optimizer = 0;        // beside total(): Newton-Schulz iterations of Muon
  // What multiplies: "f32", "tf32", "bf16", "f16", "fp8". Adds up to total().
  std::map<std::string, double> by_operand;

  double total() const { return forward + backward; }
  // Attended share of all pairs; 1 without attention.
  double density() const { return attention_pairs > 0 ? attended_pairs / attention_pairs : 1; }
  // Of a step that is `times` this one.
  FlopCount scaled(double times) const;
  // by_operand in these proportions, whatever they add up to.
  void share_out(std::map<std::string, double> parts);
};

// "0.5005 of all pairs", "at most 0.5005 of all pairs (data decides)".
std::string density_text(const FlopCount& count);

// Of a pair that attends: of kAttention or kAttentionGradient. head_dim: of queries and keys; value_dim: of values.
double attention_flops_of_pair(Op op, double head_dim, double value_dim);

// `bindings` of every symbol in the graph.
FlopCount count_flops(const Graph& graph, const SymbolBindings& bindings = {});

}  // namespace causeway::passes
