// Tokens to experts and back. P slabs of T tokens are routed each by itself: over a mesh a slab is what one rank has of
// the batch, and dimension 0 is cut over ranks, which need nothing of each other for it. No token is dropped: the T k
// choices of a slab are its rows, in the order of their experts. All integers are i32 and the same on every device.
// Sources: Shazeer et al., arXiv 1701.06538; Fedus et al. (Switch), 2101.03961; Gale et al. (MegaBlocks), 2211.15841.
#pragma once

#include "causeway/tensor/operand.h"

namespace causeway::tensor {

struct ExpertChoice {
  Tensor probabilities;  // f32 [P, T, E], the softmax of the logits
  Tensor experts;        // i32 [P, T, k], the most likely first; of equal ones that of the lower number
  Tensor weights;        // f32 [P, T, k], their probabilities, where `normalized` over the sum of the k
};
// Softmax, then the k largest; logits are [P, T, E]. Normalized, it is the softmax of the k largest logits. Throws
// Error(kInvalidArgument) where there are fewer experts than k.
ExpertChoice choose_experts(const Tensor& logits, int64_t k, bool normalized);

struct ExpertRows {
  Tensor counts;       // i32 [P, E], how many rows each expert has
  Tensor offsets;      // i32 [P, E + 1], where they begin in the slab; the last one is T k
  Tensor row_of_slot;  // i32 [P, T k]: of choice (t, j), at t k + j, its row among all P T k
  Tensor slot_of_row;  // i32 [P, T k]: the other way round
  int64_t per_token = 1;
};
// Rows in the order of the experts [P, T, k], then of tokens, then of their choices.
ExpertRows rows_by_expert(const Tensor& experts, int64_t count);

// Of each row its token's values: x [P, T, d] to [P, T k, d]. The gradient of a token is the sum of its k rows', in
// the order of its choices.
Tensor permute_rows(const Tensor& x, const ExpertRows& rows);
// Of each token the sum of its k rows' values times its weights [P, T, k], in the order of its choices: y [P, T k, d]
// to [P, T, d].
Tensor combine_rows(const Tensor& y, const Tensor& weights, const ExpertRows& rows);

// Switch's load-balancing loss over some number of layers and tokens, f32 []: E times the sum over experts of their
// share of the tokens' k choices (counts [E] f32 over `tokens`: all shares add up to k, as in transformers) times the
// mean of their probability (probabilities [E] over `tokens`). k where all is even. No gradient passes through counts.
Tensor balance_loss(const Tensor& counts, const Tensor& probabilities, double tokens);

}  // namespace causeway::tensor
