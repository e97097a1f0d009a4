#include "causeway/bench/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "causeway/bench/results/inference.h"

namespace causeway::bench {
namespace {

Measurement with_rounds(std::vector<std::vector<double>> rounds) {
  Measurement m;
  m.unit = "GB/s";
  m.work = 2e9;
  m.rounds = std::move(rounds);
  return m;
}

TEST(Statistics, RateScalesWorkToTheUnit) {
  Measurement m;
  m.work = 3e12;
  m.unit = "TFLOP/s";
  EXPECT_DOUBLE_EQ(m.rate(2), 1.5);
  m.unit = "GB/s";
  EXPECT_DOUBLE_EQ(m.rate(2), 1500);
  m.unit = "tokens/s";
  EXPECT_DOUBLE_EQ(m.rate(2), 1.5e12);
  EXPECT_DOUBLE_EQ(m.rate(0), 0);
  m.unit = "s";
  EXPECT_DOUBLE_EQ(m.rate(2), 2);
  EXPECT_FALSE(m.higher_is_better());
}

TEST(Statistics, SummaryPoolsAllRoundsAndInterpolates) {
  const Summary s = summarize(with_rounds({{5, 1}, {4, 2, 3}}));
  EXPECT_EQ(s.samples, 5u);
  EXPECT_DOUBLE_EQ(s.median, 3);
  EXPECT_DOUBLE_EQ(s.mean, 3);
  EXPECT_DOUBLE_EQ(s.minimum, 1);
  EXPECT_DOUBLE_EQ(s.p5, 1.2);
  EXPECT_DOUBLE_EQ(s.p95, 4.8);
  EXPECT_DOUBLE_EQ(summarize(with_rounds({{1, 2}})).median, 1.5);
  EXPECT_DOUBLE_EQ(summarize(with_rounds({{7}})).p95, 7);
  EXPECT_EQ(summarize(with_rounds({})).samples, 0u);
}

TEST(Statistics, HeadlineFollowsTheStatistic) {
  Measurement m = with_rounds({{1, 2, 4}});
  EXPECT_DOUBLE_EQ(headline(m), 1);
  m.statistic = Statistic::kMinimum;
  EXPECT_DOUBLE_EQ(headline(m), 2);
}

TEST(Statistics, VariationIsBetweenTheMediansOfRounds) {
  EXPECT_DOUBLE_EQ(variation_between_rounds(with_rounds({{1, 1, 9}, {1, 1, 5}})), 0);
  EXPECT_NEAR(variation_between_rounds(with_rounds({{9}, {10}, {11}})), 0.1, 1e-12);
  EXPECT_DOUBLE_EQ(variation_between_rounds(with_rounds({{1, 2}})), 0);
}

// Closed forms: of 1 degree of freedom t = cot(pi p), of 2 t = (1 - 2p) / sqrt(2 p (1 - p)); the others are from
// printed tables.
TEST(Statistics, QuantilesOfStudentsDistribution) {
  for (const double tail : {0.25, 0.025, 5e-5, 1e-8}) {
    EXPECT_NEAR(student_t_quantile(tail, 1) * std::tan(M_PI * tail), 1, 1e-9);
    EXPECT_NEAR(student_t_quantile(tail, 2) / ((1 - 2 * tail) / std::sqrt(2 * tail * (1 - tail))), 1, 1e-9);
  }
  EXPECT_NEAR(student_t_quantile(0.005, 8), 3.355, 5e-4);
  EXPECT_NEAR(student_t_quantile(0.0005, 18), 3.922, 5e-4);
  EXPECT_NEAR(student_t_quantile(0.025, 120), 1.980, 5e-4);
  EXPECT_NEAR(student_t_quantile(0.025, 1e9), 1.95996, 5e-5);
}

TEST(Statistics, VariancesAreModeratedOnlyByTheirLike) {
  const std::vector<Variance> few(9, {2, 4});
  EXPECT_EQ(moderate_variances(few)[0].degrees_of_freedom, 4);
  // All alike: as good as one variance of all their degrees of freedom. The bias of its logarithm is corrected, so the
  // shared value is not 2 itself.
  const std::vector<Variance> alike = moderate_variances(std::vector<Variance>(50, {2, 4}));
  EXPECT_NEAR(alike[0].degrees_of_freedom, 204, 0.01);
  EXPECT_NEAR(alike[0].value, 2.6, 0.1);
  // A thousandfold apart: they say next to nothing of each other.
  std::vector<Variance> apart;
  for (int i = 0; i < 50; ++i) apart.push_back({i % 2 == 0 ? 1.0 : 1e6, 8});
  const std::vector<Variance> moderated = moderate_variances(apart);
  EXPECT_LT(moderated[0].degrees_of_freedom, 9);
  EXPECT_NEAR(moderated[1].value, 1e6, 1e5);
}

TEST(Statistics, ExcessVarianceIgnoresAFewThatDiffer) {
  std::vector<double> differences, expected;
  for (int i = -50; i <= 50; ++i) {
    differences.push_back(0.7 + 0.02 * std::sin(i));
    expected.push_back(1e-6);
  }
  const double excess = excess_variance(differences, expected);
  EXPECT_NEAR(std::sqrt(excess), 0.02 * std::sqrt(0.5) / 0.6745, 2e-3);
  for (int i = 0; i < 5; ++i) differences[static_cast<size_t>(i) * 20] = 50;
  EXPECT_NEAR(std::sqrt(excess_variance(differences, expected)), std::sqrt(excess), 3e-3);
  EXPECT_EQ(excess_variance(differences, std::vector<double>(101, 1)), 0);
  EXPECT_EQ(excess_variance({1, 2, 3}, {1e-9, 1e-9, 1e-9}), 0);
}

TEST(Statistics, ExcessVarianceOfStepsBearsAFewTrueOnes) {
  std::mt19937 random(4);
  std::normal_distribution<double> normal(0, 1);
  // 401 runs that vary by 1 beyond their rounds, whose means vary by 0.5.
  std::vector<double> steps, expected;
  double last = 0;
  for (int i = 0; i <= 400; ++i) {
    const double now = normal(random) + 0.5 * normal(random);
    if (i > 0) steps.push_back(now - last), expected.push_back(2 * 0.25);
    last = now;
  }
  const ExcessVariance excess = excess_variance_of_steps(steps, expected);
  EXPECT_NEAR(excess.value, 2, 0.3);
  EXPECT_NEAR(excess.of_steps.value, excess.value + 0.5, 1e-9);
  EXPECT_EQ(excess.of_steps.degrees_of_freedom, 200);
  for (int i = 0; i < 400; i += 40) steps[static_cast<size_t>(i)] += 100;
  EXPECT_NEAR(excess_variance_of_steps(steps, expected).value, excess.value * 1.1, 0.3);
  const ExcessVariance none = excess_variance_of_steps(steps, std::vector<double>(400, 100));
  EXPECT_EQ(none.value, 0);
  EXPECT_NEAR(none.of_steps.value, 100, 1e-9);
}

}  // namespace
}  // namespace causeway::bench
