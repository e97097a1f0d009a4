// Losses of preference pairs, from the log-probabilities of whole completions: log p(completion | prompt), the sum over
// its tokens. Everything is f32 [pairs]; the mean over pairs is the caller's.
#pragma once

#include "causeway/tensor/tensor.h"

namespace causeway::tensor {

// What pairs have of a number: the completions that were preferred, and the others.
struct PreferencePairs {
  Tensor chosen, rejected;
};

// Direct preference optimization (Rafailov et al., 2023, arXiv 2305.18290): -log sigmoid(beta m), where m is by how
// much more the policy prefers the chosen completion than the reference does. `label_smoothing` is the probability that
// a pair stands the wrong way round (conservative DPO).
Tensor dpo_loss(const PreferencePairs& policy, const PreferencePairs& reference, double beta,
                double label_smoothing = 0);
// Identity preference optimization (Azar et al., 2023, arXiv 2310.12036): (m - 1 / (2 beta))^2, m of log-probabilities
// a token. `lengths`: tokens of the completions, at least 1.
Tensor ipo_loss(const PreferencePairs& policy, const PreferencePairs& reference, const PreferencePairs& lengths,
                double beta);
// Simple preference optimization (Meng et al., 2024, arXiv 2405.14734), without a reference: -log sigmoid(beta d -
// margin), d the difference of log-probabilities a token.
Tensor simpo_loss(const PreferencePairs& policy, const PreferencePairs& lengths, double beta, double margin);
// What odds ratio preference optimization (Hong et al., 2024, arXiv 2403.07691) adds to the loss of the chosen
// completions: -beta log sigmoid(log odds of the chosen - log odds of the rejected), of probabilities a token.
Tensor odds_ratio_loss(const PreferencePairs& policy, const PreferencePairs& lengths, double beta);

// Of a reward model (Bradley and Terry, 1952; Ouyang et al., 2022, arXiv 2203.02155): -log sigmoid(score of the chosen
// - score of the rejected) + center_coefficient (sum of both)^2, which draws scores around 0 (Eisenstein et al., 2023,
// arXiv 2312.09244).
Tensor reward_loss(const PreferencePairs& scores, double center_coefficient = 0);

}  // namespace causeway::tensor
