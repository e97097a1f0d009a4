#include "causeway/tensor/policy_ops.h"

#include <fmt/format.h>

#include <cmath>
#include <initializer_list>
#include <string_view>

#include "causeway/tensor/arithmetic_ops.h"
#include "causeway/tensor/comparison_ops.h"
#include "causeway/tensor/operand.h"

namespace causeway::tensor {
namespace {

void require_same_tokens(std::string_view op, std::initializer_list<Tensor> tensors) {
  bool alike = true;
  for (const Tensor& tensor : tensors) alike = alike && tensor.shape() == tensors.begin()->shape();
  require_argument(alike, op, "takes numbers of the same tokens", tensors);
}

Tensor ratio_of(const Tensor& policy, const Tensor& older) { return exp(policy - older); }

}  // namespace

Tensor clipped_policy_loss(const Tensor& policy, const Tensor& older, const Tensor& advantages, double lowest,
                           double highest) {
  require_argument(lowest >= 0 && lowest < 1 && highest > 1 && std::isfinite(highest), "clipped_policy_loss",
                   fmt::format("takes bounds around 1, not {} and {}", lowest, highest), {policy});
  require_same_tokens("clipped_policy_loss", {policy, older, advantages});
  const Tensor ratio = ratio_of(policy, older);
  return -minimum(ratio * advantages, clamp(ratio, lowest, highest) * advantages);
}

Tensor is_clipped_below(const Tensor& policy, const Tensor& older, const Tensor& advantages, double lowest) {
  require_same_tokens("is_clipped_below", {policy, older, advantages});
  return cast(logical_and(lt(ratio_of(policy, older), lowest), lt(advantages, 0.0)), DType::kF32);
}

Tensor is_clipped_above(const Tensor& policy, const Tensor& older, const Tensor& advantages, double highest) {
  require_same_tokens("is_clipped_above", {policy, older, advantages});
  return cast(logical_and(gt(ratio_of(policy, older), highest), gt(advantages, 0.0)), DType::kF32);
}

Tensor divergence_estimate(const Tensor& policy, const Tensor& reference) {
  require_same_tokens("divergence_estimate", {policy, reference});
  const Tensor ahead = reference - policy;
  return exp(ahead) - ahead - 1.0;
}

}  // namespace causeway::tensor
