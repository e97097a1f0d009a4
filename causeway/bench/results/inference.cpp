#include "causeway/bench/results/inference.h"

#include <algorithm>
#include <boost/math/distributions/chi_squared.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <boost/math/special_functions/digamma.hpp>
#include <boost/math/special_functions/trigamma.hpp>
#include <boost/math/tools/roots.hpp>
#include <cmath>

#include "causeway/base/error.h"
#include "causeway/bench/statistics.h"

namespace causeway::bench {
namespace {

constexpr size_t kFewestToShare = 10;
// The most that the square of a step counts, in variances.
constexpr double kMostOfSquare = 4;

using boost::math::digamma;
using boost::math::trigamma;

// Of a standard normal variable squared.
double median_of_square() { return quantile(boost::math::chi_squared(1), 0.5); }
// Of the lesser of a standard normal variable's square and kMostOfSquare.
double mean_of_bounded_square() {
  const boost::math::normal normal;
  const double bound = std::sqrt(kMostOfSquare);
  const double beyond = 2 * cdf(complement(normal, bound));
  return 1 - beyond - 2 * bound * pdf(normal, bound) + kMostOfSquare * beyond;
}

// The x in [low, high] where a decreasing function falls to `value`, or the nearer end.
template <typename Function>
double where_falls_to(double value, double low, double high, const Function& function) {
  if (!(function(low) > value)) return low;
  if (!(function(high) < value)) return high;
  constexpr int kBits = 40;  // 1e-12
  const auto [below, above] = boost::math::tools::bisect([&](double x) { return function(x) - value; }, low, high,
                                                         boost::math::tools::eps_tolerance<double>(kBits));
  return (below + above) / 2;
}

// The x above 0 where a decreasing function falls to `value`; 0 where it is not above it there. `guess`: above 0.
template <typename Function>
double root_above_0(double value, double guess, const Function& function) {
  if (function(0) <= value) return 0;
  while (function(guess) > value) guess *= 2;
  return where_falls_to(value, 0, guess, function);
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return percentile(values, 0.5);
}

}  // namespace

double student_t_quantile(double tail, double degrees_of_freedom) {
  CAUSEWAY_CHECK(tail > 0 && tail < 0.5 && degrees_of_freedom >= 1, "tail {}, {} degrees of freedom", tail,
                 degrees_of_freedom);
  return quantile(complement(boost::math::students_t(degrees_of_freedom), tail));
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
  const double half = where_falls_to(observed - expected, 1e-3, freedom / 2, [](double x) { return trigamma(x); });
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
  return root_above_0(median_of_square(), expected.front(), median_square);
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
  const double excess = root_above_0(mean_of_bounded_square(), expected.front(), mean_square);
  double mean_expected = 0;
  for (const double one : expected) mean_expected += one / count;
  return {excess, {excess + mean_expected, count / 2}};
}

}  // namespace causeway::bench
