// Losses of policy gradients, of each token of a completion by itself. Everything is f32 of one shape, [rows, tokens];
// sums and means over tokens are the caller's.
#pragma once

#include "causeway/tensor/tensor.h"

namespace causeway::tensor {

// The clipped surrogate of proximal policy optimization (Schulman et al., 2017, arXiv 1707.06347), to be minimized:
// -min(r A, clamp(r, lowest, highest) A), where r = exp(policy - older) is how much more probable a token is than it
// was to the policy that the completion is compared with.
Tensor clipped_policy_loss(const Tensor& policy, const Tensor& older, const Tensor& advantages, double lowest,
                           double highest);
// Where that is cut off and has no gradient: 1 where r is below `lowest` and the advantage negative, or, likewise,
// above `highest` and positive.
Tensor is_clipped_below(const Tensor& policy, const Tensor& older, const Tensor& advantages, double lowest);
Tensor is_clipped_above(const Tensor& policy, const Tensor& older, const Tensor& advantages, double highest);
// An estimate of the divergence from a reference by sampled tokens that is never negative (k3 of Schulman, 2020):
// exp(reference - policy) - (reference - policy) - 1.
Tensor divergence_estimate(const Tensor& policy, const Tensor& reference);

}  // namespace causeway::tensor
