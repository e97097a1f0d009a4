#include "causeway/bench/results/inference.h"

#include <algorithm>
#include <cmath>

#include "causeway/base/error.h"
#include "causeway/bench/statistics.h"

namespace causeway::bench {
namespace {

constexpr size_t kFewestToShare = 10;
constexpr double kManyDegreesOfFreedom = 1e5;
// Of a standard normal variable squared.
constexpr double kMedianOfSquare = 0.454936423119573;
// The most that the square of a step counts, in variances; and the mean of a standard normal variable's squares then.
constexpr double kMostOfSquare = 4;
constexpr double kMeanOfSquare = 0.920536925636323;
// From here on the asymptotic series below are exact to 1e-12.
constexpr double kSeriesFrom = 10;

double digamma(double x) {
  double sum = 0;
  for (; x < kSeriesFrom; x += 1) sum -= 1 / x;
  const double y = 1 / (x * x);
  return sum + std::log(x) - 0.5 / x - y * (1.0 / 12 - y * (1.0 / 120 - y * (1.0 / 252 - y * (1.0 / 240 - y / 132))));
}

double trigamma(double x) {
  double sum = 0;
  for (; x < kSeriesFrom; x += 1) sum += 1 / (x * x);
  const double y = 1 / (x * x);
  return sum + 1 / x + y / 2 + y / x * (1.0 / 6 - y * (1.0 / 30 - y * (1.0 / 42 - y * (1.0 / 30 - y * 5 / 66))));
}

// The x in [low, high] where a decreasing function falls to `value`, or the nearer end.
template <typename Function>
double where_falls_to(double value, double low, double high, const Function& function) {
  for (int i = 0; i < 200 && high - low > 1e-12 * high; ++i) {
    const double middle = (low + high) / 2;
    (function(middle) > value ? low : high) = middle;
  }
  return (low + high) / 2;
}

// The x above 0 where a decreasing function falls to `value`; 0 where it is not above it there. `guess`: above 0.
template <typename Function>
double root_above_0(double value, double guess, const Function& function) {
  if (function(0) <= value) return 0;
  while (function(guess) > value) guess *= 2;
  return where_falls_to(value, 0, guess, function);
}

// The continued fraction of the regularised incomplete beta function, by Lentz's method; quick for
// x < (a + 1) / (a + b + 2).
double incomplete_beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  const auto away_from_zero = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1;
  double d = 1 / away_from_zero(1 - (a + b) * x / (a + 1));
  double result = d;
  for (int i = 1; i <= 10'000; ++i) {
    const double m = i;
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / away_from_zero(1 + even * d);
    c = away_from_zero(1 + even / c);
    result *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / away_from_zero(1 + odd * d);
    c = away_from_zero(1 + odd / c);
    result *= d * c;
    if (std::abs(d * c - 1) < 1e-15) break;
  }
  return result;
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return percentile(values, 0.5);
}

double incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x));
  if (x < (a + 1) / (a + b + 2)) return front * incomplete_beta_fraction(a, b, x) / a;
  return 1 - front * incomplete_beta_fraction(b, a, 1 - x) / b;
}

}  // namespace

double student_t_quantile(double tail, double degrees_of_freedom) {
  CAUSEWAY_CHECK(tail > 0 && tail < 0.5 && degrees_of_freedom >= 1, "tail {}, {} degrees of freedom", tail,
                 degrees_of_freedom);
  const double n = std::min(degrees_of_freedom, kManyDegreesOfFreedom);
  const auto tail_beyond = [n](double t) { return 0.5 * incomplete_beta(n / 2, 0.5, n / (n + t * t)); };
  double high = 1;
  while (tail_beyond(high) > tail) high *= 2;
  return where_falls_to(tail, 0, high, tail_beyond);
}

std::vector<Variance> moderate_variances(const std::vector<Variance>& variances) {
  if (variances.size() < kFewestToShare) return variances;
  // The logarithm of a variance estimate, freed of its bias, has the variance trigamma(degrees of freedom / 2); what
  // the estimates vary beyond that is how much the true variances differ.
  const auto count = static_cast<double>(variances.size());
  std::vector<double> logs;
  double mean = 0;
  double expected = 0;
  double freedom = 0;
  for (const Variance& v : variances) {
    const double half = v.degrees_of_freedom / 2;
    logs.push_back(std::log(v.value) - digamma(half) + std::log(half));
    mean += logs.back() / count;
    expected += trigamma(half) / count;
    freedom += v.degrees_of_freedom;
  }
  double observed = 0;
  for (const double log : logs) observed += (log - mean) * (log - mean) / (count - 1);
  const double half = where_falls_to(observed - expected, 1e-3, freedom / 2, trigamma);
  const double shared = std::exp(mean + digamma(half) - std::log(half));
  std::vector<Variance> moderated;
  for (const Variance& v : variances) {
    const double n = v.degrees_of_freedom + 2 * half;
    moderated.push_back({(v.degrees_of_freedom * v.value + 2 * half * shared) / n, n});
  }
  return moderated;
}

double excess_variance(const std::vector<double>& differences, const std::vector<double>& expected) {
  if (differences.size() < kFewestToShare) return 0;
  const double centre = median_of(differences);
  const auto median_square = [&](double excess) {
    std::vector<double> squares;
    for (size_t i = 0; i < differences.size(); ++i)
      squares.push_back((differences[i] - centre) * (differences[i] - centre) / (expected[i] + excess));
    return median_of(squares);
  };
  return root_above_0(kMedianOfSquare, expected.front(), median_square);
}

ExcessVariance excess_variance_of_steps(const std::vector<double>& steps, const std::vector<double>& expected) {
  CAUSEWAY_CHECK(!steps.empty() && steps.size() == expected.size(), "{} steps, {} variances", steps.size(),
                 expected.size());
  const auto count = static_cast<double>(steps.size());
  const auto mean_square = [&](double excess) {
    double mean = 0;
    for (size_t i = 0; i < steps.size(); ++i)
      mean += std::min(steps[i] * steps[i] / (expected[i] + excess), kMostOfSquare) / count;
    return mean;
  };
  const double excess = root_above_0(kMeanOfSquare, expected.front(), mean_square);
  double mean_expected = 0;
  for (const double one : expected) mean_expected += one / count;
  return {excess, {excess + mean_expected, count / 2}};
}

}  // namespace causeway::bench
