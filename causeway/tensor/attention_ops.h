// Attention with a score and a mask that are C++ functions of scalars, traced into the kernel and differentiated with
// it:
//
//   const Tensor out = attention(q, k, v, {.score = alibi_score(slopes), .mask = causal_mask()});
//   const Tensor own = attention(q, k, v, {.score = [&](const AttentionPosition& p, const Tensor& score) {
//     return score + at(bias, {p.head, p.key});
//   }});
//
// A function sees one query-key pair: its position and, for a score, the scaled query-key dot product. Whatever other
// tensors it uses are captured as inputs of the kernel; at() reads an element of one. It is called once, when the
// attention is recorded, and must build its result from scalars alone.
#pragma once

#include <functional>

#include "causeway/tensor/operand.h"

namespace causeway::tensor {

// Scalars (i32): which batch element, query head, query and key.
struct AttentionPosition {
  Tensor batch, head, query, key;
};

// Gives the score that enters the softmax.
using ScoreFunction = std::function<Tensor(const AttentionPosition& position, const Tensor& score)>;
// Whether the query attends to the key.
using MaskFunction = std::function<Tensor(const AttentionPosition& position)>;

struct AttentionOptions {
  ScoreFunction score = {};          // none: the scaled query-key dot product
  MaskFunction mask = {};            // none: every query attends to every key
  std::optional<double> scale = {};  // 1 / sqrt(D) when not given
  Tensor sink = {};                  // [H]: a learned logit per head that takes part in the softmax and has no value
  // Blocks of the map that lets the kernel skip what the mask excludes.
  int64_t block_q = graph::preferred_attention_block();
  int64_t block_k = graph::preferred_attention_block();
  // Off: no map. There is none either for symbolic lengths not known to be multiples of the blocks.
  bool block_map = true;
};

struct AttentionResult {
  Tensor out;  // [B, T, H, V]
  Tensor lse;  // f32 [B, H, T], without the sink: -infinity where nothing is attended to
};

// q [B, T, H, D]; k [B, S, K, D] and v [B, S, K, V] with K dividing H: query head h uses key head h / (H / K). Heads of
// values may be as wide as those of keys, or not (V = 128 beside D = 192 in latent attention). A query that attends to
// nothing gives 0. Differentiable in q, k, v and the sink; the gradient of a tensor that the score captures is an
// Error(kUnsupported) when it is asked for.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options = {});
AttentionResult attention_with_lse(const Tensor& q, const Tensor& k, const Tensor& v,
                                   const AttentionOptions& options = {});

// Masks. Positions count from 0 in both queries and keys.
MaskFunction causal_mask();                               // key <= query
MaskFunction sliding_window_mask(int64_t window);         // causal, and query - key < window (Mistral)
MaskFunction prefix_mask(const Tensor& prefix_lengths);   // causal, or key < prefix_lengths[batch]
MaskFunction padding_mask(const Tensor& lengths);         // key < lengths[batch]
MaskFunction document_mask(const Tensor& document_ids);   // ids [B, T]: query and key of one document
MaskFunction and_masks(std::vector<MaskFunction> masks);  // all of them; none attends to everything
MaskFunction or_masks(std::vector<MaskFunction> masks);   // any of them; none attends to nothing
MaskFunction not_mask(MaskFunction mask);

// Scores.
ScoreFunction alibi_score(const Tensor& slopes);  // score + slopes[head] (key - query)
ScoreFunction softcap_score(double cap);          // cap tanh(score / cap) (Gemma 2)
ScoreFunction bias_score(const Tensor& bias);     // score + bias[head, query, key], sizes of 1 broadcast
ScoreFunction compose_scores(std::vector<ScoreFunction> scores);  // in the order given

}  // namespace causeway::tensor
