// Losses of policy gradients, against values of TRL's formulas in double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/tensor/op_check.h"

namespace causeway::tensor {
namespace {

using In = const std::vector<Tensor>&;
using List = std::vector<double>;

// Tokens that became more and less probable, within the bounds and beyond both, with advantages of both signs. All of
// these numbers are the same in f32.
const List kPolicy = {-1.0, -2.0, -0.5, -3.0, -1.5, -0.75}, kOlder = {-1.125, -1.25, -1.5, -2.875, -0.5, -1.75};
const List kAdvantages = {1.5, 0.5, 2.0, -1.0, -0.5, -1.25};
constexpr double kLowest = 0.8125, kHighest = 1.28125;

std::vector<HostTensor> of_tokens(std::initializer_list<List> lists) {
  std::vector<HostTensor> tensors;
  for (const List& list : lists) tensors.push_back(host({2, 3}, list));
  return tensors;
}

Tensor matrix_of(const List& list) { return reshape(vector_of(list), {Dim(2), Dim(3)}); }

TEST(PolicyOps, ClippedSurrogate) {
  List expected;
  for (size_t i = 0; i < 6; ++i) {
    const double ratio = std::exp(kPolicy[i] - kOlder[i]);
    expected.push_back(-std::min(ratio * kAdvantages[i], std::clamp(ratio, kLowest, kHighest) * kAdvantages[i]));
  }
  expect_op(
      [&](In in) { return clipped_policy_loss(in[0], matrix_of(kOlder), matrix_of(kAdvantages), kLowest, kHighest); },
      of_tokens({kPolicy}), {2, 3}, expected);
}

// What is cut off, and not what merely lies beyond a bound.
TEST(PolicyOps, ClippedTokens) {
  List below, above;
  for (size_t i = 0; i < 6; ++i) {
    const double ratio = std::exp(kPolicy[i] - kOlder[i]);
    below.push_back(ratio < kLowest && kAdvantages[i] < 0 ? 1 : 0);
    above.push_back(ratio > kHighest && kAdvantages[i] > 0 ? 1 : 0);
  }
  EXPECT_EQ(below, (List{0, 0, 0, 0, 1, 0}));
  EXPECT_EQ(above, (List{0, 0, 1, 0, 0, 0}));
  const Tensor policy = matrix_of(kPolicy), older = matrix_of(kOlder), advantages = matrix_of(kAdvantages);
  EXPECT_EQ(is_clipped_below(policy, older, advantages, kLowest).values(), below);
  EXPECT_EQ(is_clipped_above(policy, older, advantages, kHighest).values(), above);
}

TEST(PolicyOps, Divergence) {
  List expected;
  for (size_t i = 0; i < 6; ++i) {
    const double ahead = kOlder[i] - kPolicy[i];
    expected.push_back(std::expm1(ahead) - ahead);
    EXPECT_GE(expected.back(), 0);
  }
  expect_op([&](In in) { return divergence_estimate(in[0], in[1]); }, of_tokens({kPolicy, kOlder}), {2, 3}, expected);
}

}  // namespace
}  // namespace causeway::tensor
