// Losses of preference pairs, against values that TRL's formulas give in double precision.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/tensor/op_check.h"

namespace causeway::tensor {
namespace {

using In = const std::vector<Tensor>&;
using List = std::vector<double>;

double log_sigmoid_of(double x) { return x > 0 ? -std::log1p(std::exp(-x)) : x - std::log1p(std::exp(x)); }

// Of a pair that the policy prefers the wrong way, one that it does not tell apart, and two that it prefers strongly.
const List kChosen = {-12, -3.5, -2, -40}, kRejected = {-7, -3.5, -30, -130};
const List kReferenceChosen = {-10, -4, -9, -60}, kReferenceRejected = {-9, -4, -12, -70};
const List kChosenLengths = {6, 2, 8, 20}, kRejectedLengths = {3, 5, 4, 30};

std::vector<HostTensor> inputs(std::initializer_list<List> lists) {
  std::vector<HostTensor> tensors;
  for (const List& list : lists) tensors.push_back(host({4}, list));
  return tensors;
}

TEST(PreferenceOps, DirectPreferenceOptimization) {
  const auto given = inputs({kChosen, kRejected, kReferenceChosen, kReferenceRejected});
  for (const double smoothing : {0.0, 0.1}) {
    List expected;
    for (size_t i = 0; i < 4; ++i) {
      const double margin = 0.1 * ((kChosen[i] - kRejected[i]) - (kReferenceChosen[i] - kReferenceRejected[i]));
      expected.push_back(-(1 - smoothing) * log_sigmoid_of(margin) - smoothing * log_sigmoid_of(-margin));
    }
    EXPECT_NEAR(expected[1], std::log(2), 1e-12);
    expect_op([&](In in) { return dpo_loss({in[0], in[1]}, {in[2], in[3]}, 0.1, smoothing); }, given, {4}, expected);
  }
}

TEST(PreferenceOps, IdentityPreferenceOptimization) {
  List expected;
  for (size_t i = 0; i < 4; ++i) {
    const double difference = (kChosen[i] - kReferenceChosen[i]) / kChosenLengths[i] -
                              (kRejected[i] - kReferenceRejected[i]) / kRejectedLengths[i];
    expected.push_back((difference - 1 / (2 * 0.4)) * (difference - 1 / (2 * 0.4)));
  }
  const List chosen_lengths = kChosenLengths, rejected_lengths = kRejectedLengths;
  expect_op(
      [&](In in) {
        return ipo_loss({in[0], in[1]}, {in[2], in[3]}, {vector_of(chosen_lengths), vector_of(rejected_lengths)}, 0.4);
      },
      inputs({kChosen, kRejected, kReferenceChosen, kReferenceRejected}), {4}, expected);
}

TEST(PreferenceOps, SimplePreferenceOptimization) {
  List expected;
  for (size_t i = 0; i < 4; ++i)
    expected.push_back(
        -log_sigmoid_of(2 * (kChosen[i] / kChosenLengths[i] - kRejected[i] / kRejectedLengths[i]) - 0.5));
  expect_op(
      [&](In in) {
        return simpo_loss({in[0], in[1]}, {vector_of(kChosenLengths), vector_of(kRejectedLengths)}, 2, 0.5);
      },
      inputs({kChosen, kRejected}), {4}, expected);
}

// Also where a token's probability is nearly 1, and nearly 0.
TEST(PreferenceOps, OddsRatios) {
  const List chosen = {-12, -3.5, -0.125, -600}, rejected = {-7, -0.25, -30, -130};
  List expected;
  for (size_t i = 0; i < 4; ++i) {
    const double of_chosen = chosen[i] / kChosenLengths[i], of_rejected = rejected[i] / kRejectedLengths[i];
    const double odds =
        (of_chosen - std::log(-std::expm1(of_chosen))) - (of_rejected - std::log(-std::expm1(of_rejected)));
    expected.push_back(-0.1 * log_sigmoid_of(odds));
  }
  expect_op(
      [&](In in) {
        return odds_ratio_loss({in[0], in[1]}, {vector_of(kChosenLengths), vector_of(kRejectedLengths)}, 0.1);
      },
      inputs({chosen, rejected}), {4}, expected);
}

TEST(PreferenceOps, WhatIsRefused) {
  const PreferencePairs pairs = {zeros({3}), zeros({3})}, fewer = {zeros({3}), zeros({2})};
  const auto error_text = [](const auto& make) -> std::string {
    try {
      make();
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  };
  EXPECT_EQ(error_text([&] { dpo_loss(pairs, pairs, 0); }),
            "dpo_loss: takes a beta above 0, not 0; it was given (f32[3])");
  EXPECT_EQ(error_text([&] { dpo_loss(pairs, pairs, 0.1, 0.5); }),
            "dpo_loss: takes a label smoothing of at least 0 and below 0.5, not 0.5; it was given (f32[3])");
  EXPECT_EQ(error_text([&] { simpo_loss(pairs, fewer, 2, 0.5); }),
            "simpo_loss: takes numbers of the same pairs, [pairs]; it was given (f32[3], f32[3], f32[2])");
}

TEST(PreferenceOps, ScoresOfARewardModel) {
  const List chosen = {1.5, -0.25, 30, -3}, rejected = {-0.5, -0.25, -30, 4};
  for (const double coefficient : {0.0, 0.05}) {
    List expected;
    for (size_t i = 0; i < 4; ++i)
      expected.push_back(-log_sigmoid_of(chosen[i] - rejected[i]) +
                         coefficient * (chosen[i] + rejected[i]) * (chosen[i] + rejected[i]));
    expect_op([&](In in) { return reward_loss({in[0], in[1]}, coefficient); }, inputs({chosen, rejected}), {4},
              expected);
  }
}

}  // namespace
}  // namespace causeway::tensor
