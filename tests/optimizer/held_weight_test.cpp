// Weights in bf16: rounded at random they are right in the mean and not where plain rounding leaves them; compensated
// they are f32's to a bound; and both are that of every optimizer, by formulas in double.
#include "causeway/optimizer/held_weight.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <set>

#include "causeway/optimizer/stochastic_rounding.h"
#include "causeway/tensor/ops.h"
#include "tests/optimizer/optimizer_steps.h"

namespace causeway::optimizer {
namespace {

constexpr char kMatrix[] = "model.layers.0.mlp.up_proj.weight";

double bf16(double x) { return round_to_dtype(DType::kBF16, x); }

// The neighbours of x in bf16: towards 0, and away from it.
std::pair<double, double> neighbours(double x) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(x)) & 0xffff0000u;
  return {std::bit_cast<float>(bits), std::bit_cast<float>(bits + 0x10000u)};
}

OptimizerConfig config_of(const std::string& name, HeldWeights weights) {
  OptimizerConfig config;
  config.name = name;
  config.weights = weights;
  return config;
}

// Plain gradient descent.
OptimizerConfig descent(HeldWeights weights) {
  OptimizerConfig config = config_of("sgd", weights);
  config.own = {{"momentum", 0.0}};
  return config;
}

Parameter matrix_of(const std::vector<double>& values, const std::vector<int64_t>& shape, HeldWeights weights) {
  return {kMatrix, Tensor::from_values(values, shape, weights == HeldWeights::kF32 ? DType::kF32 : DType::kBF16), true};
}

std::vector<double> waves(size_t count, double scale, double phase) {
  std::vector<double> values;
  for (size_t i = 0; i < count; ++i) values.push_back(bf16(scale * std::sin(phase + 1.7 * static_cast<double>(i))));
  return values;
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double variance_of(const std::vector<double>& values) {
  const double mean = mean_of(values);
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return sum / static_cast<double>(values.size());
}

// A step of 0.001 at 1, whose neighbour below is 2^-8 away: to nearest it is none, however many are taken.
TEST(HeldWeight, RoundedAtRandomItMovesInTheMean) {
  constexpr size_t kDraws = 20000;
  constexpr double kStep = 0.001, kUnit = 0x1p-8, kShare = kStep / kUnit;
  EXPECT_EQ(bf16(1 - kStep), 1);
  OptimizerSteps steps(descent(HeldWeights::kBf16Stochastic),
                       matrix_of(std::vector<double>(kDraws, 1), {100, 200}, HeldWeights::kBf16Stochastic));
  EXPECT_EQ(steps.state.size(), 1u);  // the momentum's alone
  const double deviation = kUnit * std::sqrt(kShare * (1 - kShare));
  for (int step = 1; step <= 40; ++step) {
    steps.take(std::vector<double>(kDraws, 1), kStep, 0);
    const std::vector<double> now = steps.values();
    if (step == 1) EXPECT_EQ(std::set<double>(now.begin(), now.end()), (std::set<double>{1 - kUnit, 1}));
    // Five standard deviations of the mean.
    const double off = deviation * std::sqrt(static_cast<double>(step));
    ASSERT_NEAR(mean_of(now), 1 - step * kStep, 5 * off / std::sqrt(kDraws)) << step;
    // As of independent draws: with the same numbers in each step a few elements would take them all.
    ASSERT_NEAR(std::sqrt(variance_of(now)), off, 0.1 * off) << step;
  }
  EXPECT_EQ(steps.parameter.tensor.dtype(), DType::kBF16);
}

TEST(HeldWeight, RandomNumbersAreTheParametersTheStepsAndTheElements) {
  const Parameter parameter = matrix_of(std::vector<double>(600, 1), {20, 30}, HeldWeights::kBf16Stochastic);
  const auto bits = [&](int64_t seed, int step, RoundingStream stream = RoundingStream::kWeights) {
    return rounding_bits({parameter, {}, {}, {}, full({}, step), 0, seed}, stream).values();
  };
  EXPECT_EQ(bits(3, 1), bits(3, 1));
  EXPECT_NE(bits(3, 1), bits(3, 2));
  EXPECT_NE(bits(3, 1), bits(4, 1));
  EXPECT_NE(bits(3, 1), bits(3, 1, RoundingStream::kMoments));
  const std::vector<double> of_elements = bits(3, 1);
  EXPECT_GT(std::set<double>(of_elements.begin(), of_elements.end()).size(), 590u);
  const Tensor both = rounding_bits({parameter, {}, {}, {}, full({}, 1), 0, 3}, RoundingStream::kWeights);
  const std::vector<double> lower = lower_16_bits(both).values(), upper = upper_16_bits(both).values();
  EXPECT_NE(lower, upper);
  for (const auto& half : {lower, upper}) {
    EXPECT_GE(*std::ranges::min_element(half), 0);
    EXPECT_LE(*std::ranges::max_element(half), 65535);
    EXPECT_NEAR(mean_of(half), 32767.5, 5 * 65536 / std::sqrt(12.0 * 600));
  }
}

TEST(HeldWeight, WhatIsNoNumberStaysNone) {
  const auto bits =
      std::to_array<uint32_t>({0x7fffffff, 0xffffffff, 0x7fc00000, 0x7f800000, 0xff800000, 0, 0x80000000});
  const Tensor x = Tensor::from_bytes(std::as_bytes(std::span(bits)), {7}, DType::kF32);
  const std::vector<double> rounded = stochastically_rounded_to_bf16(x, full({Dim(7)}, 0xffff, DType::kI32)).values();
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(rounded[i])) << i;
  EXPECT_EQ(rounded[3], HUGE_VAL);
  EXPECT_EQ(rounded[4], -HUGE_VAL);
  EXPECT_EQ(rounded[5], 0);
  EXPECT_EQ(rounded[6], 0);
}

// AdamW's formulas in double, of the sum of the weight and what was rounded off; both rounded by their definition.
TEST(HeldWeight, CompensatedAdamWIsItsFormulas) {
  constexpr double kRate = 1e-3, kDecay = 0.1;
  constexpr size_t kCount = 96;
  OptimizerConfig config = config_of("adamw", HeldWeights::kBf16Kahan);
  config.own = {{"beta1", 0.8}, {"beta2", 0.9}};
  OptimizerSteps steps(config, matrix_of(waves(kCount, 1, 0), {8, 12}, HeldWeights::kBf16Kahan));
  ASSERT_EQ(steps.state.size(), 3u);
  EXPECT_EQ(steps.state[2].dtype(), DType::kBF16);
  std::vector<double> m(kCount), v(kCount);
  double largest = 0;
  for (int step = 1; step <= 30; ++step) {
    const std::vector<double> p = steps.values(), c = steps.state[2].values(), g = waves(kCount, 1, step);
    steps.take(g, kRate, kDecay);
    const std::vector<double> now = steps.values(), off = steps.state[2].values();
    for (size_t i = 0; i < kCount; ++i) {
      m[i] = 0.8 * m[i] + 0.2 * g[i];
      v[i] = 0.9 * v[i] + 0.1 * g[i] * g[i];
      const double mean = m[i] / (1 - std::pow(0.8, step)), square = v[i] / (1 - std::pow(0.9, step));
      const double expected = (p[i] + c[i]) * (1 - kRate * kDecay) - kRate * mean / (std::sqrt(square) + 1e-8);
      // The weight is the nearest, but for what f32 has rounded, and the rest is there to half a unit of its 8 bits:
      // 2^-8 of it at most.
      ASSERT_LE(std::abs(now[i] - expected), std::abs(bf16(expected) - expected) + 3e-7) << step << ", " << i;
      ASSERT_NEAR(now[i] + off[i], expected, 0x1p-8 * std::abs(off[i]) + 3e-7) << step << ", " << i;
      largest = std::max(largest, std::abs(off[i]));
    }
  }
  EXPECT_GT(largest, 0x1p-11);
}

// Steps a tenth of what rounding to nearest takes for none: f32's way, to 2^-17 of a weight a step at most.
TEST(HeldWeight, CompensatedItGoesWhereF32Goes) {
  constexpr size_t kCount = 64;
  constexpr int kSteps = 150;
  std::vector<double> start;
  for (size_t i = 0; i < kCount; ++i) start.push_back(bf16(1 + 0.9 * static_cast<double>(i) / kCount));
  const std::vector<double> gradient(kCount, 1);
  constexpr double kRate = 1e-4;
  const auto end_of = [&](HeldWeights weights) {
    OptimizerSteps steps(descent(weights), matrix_of(start, {8, 8}, weights));
    for (int step = 1; step <= kSteps; ++step) steps.take(gradient, kRate, 0);
    return steps.values();
  };
  const std::vector<double> f32 = end_of(HeldWeights::kF32), kahan = end_of(HeldWeights::kBf16Kahan);
  for (size_t i = 0; i < kCount; ++i) {
    EXPECT_NEAR(f32[i], start[i] - kSteps * kRate, 1e-5);
    double plain = start[i];
    for (int step = 1; step <= kSteps; ++step) plain = bf16(plain - kRate);
    EXPECT_EQ(plain, start[i]);
    EXPECT_NEAR(kahan[i], f32[i], 0x1p-8 + kSteps * 0x1p-17) << i;
    EXPECT_LE(kahan[i], start[i] - 0x1p-8) << i;
  }
}

TEST(HeldWeight, IsThatOfEveryOptimizer) {
  constexpr size_t kCount = 32 * 64;
  const std::vector<double> start = waves(kCount, 1, 0);
  for (const std::string& name : optimizer_names())
    for (const double average : {0.0, 0.5}) {
      SCOPED_TRACE(fmt::format("{}, average {}", name, average));
      const auto steps_of = [&](HeldWeights weights) {
        OptimizerConfig config = config_of(name, weights);
        config.average_decay = average;
        OptimizerSteps steps(config, matrix_of(start, {32, 64}, weights));
        steps.seed = 11;
        steps.take(waves(kCount, 0.1, 5), 3e-3, 0.1);
        return steps;
      };
      OptimizerSteps f32 = steps_of(HeldWeights::kF32), kahan = steps_of(HeldWeights::kBf16Kahan),
                     random = steps_of(HeldWeights::kBf16Stochastic);
      EXPECT_EQ(random.parameter.tensor.dtype(), DType::kBF16);
      EXPECT_EQ(random.state.size(), f32.state.size());
      const size_t of_weights = average > 0 ? 3 : 1, compensation = kahan.state.size() - (average > 0 ? 2 : 1);
      EXPECT_EQ(kahan.state.size() - of_weights + (average > 0 ? 1 : 0), f32.state.size());
      const auto expect_random = [&](const std::vector<double>& is, const std::vector<double>& of) {
        size_t farther = 0;
        for (size_t i = 0; i < kCount; ++i) {
          const auto [low, high] = neighbours(of[i]);
          const bool is_low = std::abs(is[i] - low) < std::abs(is[i] - high);
          // What f32 rounds in one program and not in another may lie on the other side of a neighbour.
          ASSERT_LE(std::min(std::abs(is[i] - low), std::abs(is[i] - high)), 3e-7) << i << " " << of[i];
          farther += is_low ? 0 : 1;
        }
        EXPECT_GT(farther, kCount / 8);
        EXPECT_LT(farther, 7 * kCount / 8);
      };
      const auto expect_compensated = [&](const std::vector<double>& is, const std::vector<double>& off,
                                          const std::vector<double>& of) {
        for (size_t i = 0; i < kCount; ++i) {
          ASSERT_LE(std::abs(is[i] - of[i]), std::abs(bf16(of[i]) - of[i]) + 6e-7) << i;
          ASSERT_NEAR(is[i] + off[i], of[i], 0x1p-8 * std::abs(off[i]) + 6e-7) << i;
        }
      };
      expect_random(random.values(), f32.values());
      expect_compensated(kahan.values(), kahan.state[compensation].values(), f32.values());
      if (average > 0) {
        expect_random(random.state.back().values(), f32.state.back().values());
        expect_compensated(kahan.state[compensation - 1].values(), kahan.state.back().values(),
                           f32.state.back().values());
        EXPECT_NE(random.state.back().values(), random.values());
      }
    }
}

TEST(HeldWeight, TakesTwoBytesOrFour) {
  const Optimizer& lion = find_optimizer("lion");
  const auto bytes = [&](HeldWeights weights, double average, const std::vector<int64_t>& shape) {
    OptimizerConfig config = config_of("lion", weights);
    config.average_decay = average;
    config = config.resolved();
    const bool wide = weights == HeldWeights::kF32 || shape.size() < 2;
    const Parameter parameter{"weight", Tensor::zeroed(shape, wide ? DType::kF32 : DType::kBF16), true};
    EXPECT_LE(lion.least_state_bytes(64, config) + (weights == HeldWeights::kF32 ? 4 : 2) * 64,
              lion.state_bytes(parameter, config) + parameter.tensor.local_bytes());
    return lion.state_bytes(parameter, config) - 4 * 64;  // without the momentum
  };
  const std::vector<int64_t> matrix = {8, 8}, vector = {64};
  EXPECT_EQ(bytes(HeldWeights::kF32, 0, matrix), 0);
  EXPECT_EQ(bytes(HeldWeights::kBf16Stochastic, 0, matrix), 0);
  EXPECT_EQ(bytes(HeldWeights::kBf16Kahan, 0, matrix), 2 * 64);
  EXPECT_EQ(bytes(HeldWeights::kF32, 0.5, matrix), 4 * 64);
  EXPECT_EQ(bytes(HeldWeights::kBf16Stochastic, 0.5, matrix), 2 * 64);
  EXPECT_EQ(bytes(HeldWeights::kBf16Kahan, 0.5, matrix), (2 + 2 + 2) * 64);
  EXPECT_EQ(bytes(HeldWeights::kBf16Kahan, 0, vector), 0);
  EXPECT_EQ(bytes(HeldWeights::kBf16Kahan, 0.5, vector), 4 * 64);
}

}  // namespace
}  // namespace causeway::optimizer
