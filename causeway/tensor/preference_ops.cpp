#include "causeway/tensor/preference_ops.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>
#include <string_view>

#include "causeway/tensor/activation_ops.h"
#include "causeway/tensor/arithmetic_ops.h"
#include "causeway/tensor/comparison_ops.h"
#include "causeway/tensor/operand.h"

namespace causeway::tensor {
namespace {

void require_beta(std::string_view op, double beta, const Tensor& given) {
  require_argument(beta > 0 && std::isfinite(beta), op, fmt::format("takes a beta above 0, not {}", beta), {given});
}

void require_pairs(std::string_view op, const PreferencePairs& first, const PreferencePairs& pairs) {
  const bool alike = first.chosen.rank() == 1 && pairs.chosen.shape() == first.chosen.shape() &&
                     pairs.rejected.shape() == first.chosen.shape();
  require_argument(alike, op, "takes numbers of the same pairs, [pairs]", {first.chosen, pairs.chosen, pairs.rejected});
}

PreferencePairs minus(const PreferencePairs& a, const PreferencePairs& b) {
  return {a.chosen - b.chosen, a.rejected - b.rejected};
}

PreferencePairs over(const PreferencePairs& a, const PreferencePairs& b) {
  return {a.chosen / b.chosen, a.rejected / b.rejected};
}

Tensor margin_of(const PreferencePairs& pairs) { return pairs.chosen - pairs.rejected; }

// log(1 - exp(x)) for x < 0, by that of the two forms which keeps its digits.
Tensor log_one_minus_exp(const Tensor& x) { return where(gt(x, -std::numbers::ln2), log(-expm1(x)), log1p(-exp(x))); }

}  // namespace

Tensor dpo_loss(const PreferencePairs& policy, const PreferencePairs& reference, double beta, double label_smoothing) {
  require_beta("dpo_loss", beta, policy.chosen);
  require_argument(label_smoothing >= 0 && label_smoothing < 0.5, "dpo_loss",
                   fmt::format("takes a label smoothing of at least 0 and below 0.5, not {}", label_smoothing),
                   {policy.chosen});
  require_pairs("dpo_loss", policy, policy);
  require_pairs("dpo_loss", policy, reference);
  const Tensor margin = margin_of(minus(policy, reference)) * beta;
  if (label_smoothing == 0) return -log_sigmoid(margin);
  return log_sigmoid(margin) * (label_smoothing - 1) - log_sigmoid(-margin) * label_smoothing;
}

Tensor ipo_loss(const PreferencePairs& policy, const PreferencePairs& reference, const PreferencePairs& lengths,
                double beta) {
  require_beta("ipo_loss", beta, policy.chosen);
  for (const PreferencePairs& pairs : {policy, reference, lengths}) require_pairs("ipo_loss", policy, pairs);
  return square(margin_of(over(minus(policy, reference), lengths)) - 1 / (2 * beta));
}

Tensor simpo_loss(const PreferencePairs& policy, const PreferencePairs& lengths, double beta, double margin) {
  require_beta("simpo_loss", beta, policy.chosen);
  for (const PreferencePairs& pairs : {policy, lengths}) require_pairs("simpo_loss", policy, pairs);
  return -log_sigmoid(margin_of(over(policy, lengths)) * beta - margin);
}

Tensor odds_ratio_loss(const PreferencePairs& policy, const PreferencePairs& lengths, double beta) {
  require_beta("odds_ratio_loss", beta, policy.chosen);
  for (const PreferencePairs& pairs : {policy, lengths}) require_pairs("odds_ratio_loss", policy, pairs);
  const PreferencePairs of_token = over(policy, lengths);
  const PreferencePairs odds =
      minus(of_token, {log_one_minus_exp(of_token.chosen), log_one_minus_exp(of_token.rejected)});
  return log_sigmoid(margin_of(odds)) * -beta;
}

Tensor reward_loss(const PreferencePairs& scores, double center_coefficient) {
  require_argument(center_coefficient >= 0 && std::isfinite(center_coefficient), "reward_loss",
                   fmt::format("takes a coefficient of at least 0, not {}", center_coefficient), {scores.chosen});
  require_pairs("reward_loss", scores, scores);
  const Tensor loss = -log_sigmoid(margin_of(scores));
  return center_coefficient == 0 ? loss : loss + square(scores.chosen + scores.rejected) * center_coefficient;
}

}  // namespace causeway::tensor
