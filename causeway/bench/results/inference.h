// What a comparison of few rounds needs from mathematical statistics.
#pragma once

#include <vector>

#include "causeway/namespaces.h"

namespace causeway::bench {

// The t for which a variable of Student's distribution exceeds t with probability `tail`, in (0, 0.5). Degrees of
// freedom may be fractional, 1 or more.
double student_t_quantile(double tail, double degrees_of_freedom);

// A variance as estimated from samples.
struct Variance {
  double value = 0;
  double degrees_of_freedom = 0;
};

// Better estimates of many variances of one kind, each of few degrees of freedom: each is drawn towards what the others
// say, and gains degrees of freedom, as far as the others agree with each other. Where they differ much, little
// changes. Values must be above 0.
// G. K. Smyth, "Linear models and empirical Bayes methods for assessing differential expression in microarray
// experiments", Stat. Appl. Genet. Mol. Biol. 3(1), 2004, section 6.2. Two departures, both for safety: with fewer than
// 10 variances they are returned as they are, and what the others add is no more degrees of freedom than they have.
std::vector<Variance> moderate_variances(const std::vector<Variance>& variances);

// The variance that `differences`, of which most should be equal, have beyond their own known variances `expected`: the
// square of t for which the median of (difference - median)^2 / (expected + t^2) is that of a standard normal variable
// squared. (The random effects of a meta-analysis, by medians, so that a few true differences do not count.) 0 with
// fewer than 10 differences.
double excess_variance(const std::vector<double>& differences, const std::vector<double>& expected);

// The same of a series of steps around 0, of which a few may be true: by squares of at most 4 of their own variances
// (two standard deviations; Huber's winsorising), which tell more of a variance than medians do, but do not bear as
// many true steps. Of 20, one adds 26 % to the variance, two add 70 %, and from five on it is as large as they are.
struct ExcessVariance {
  double value = 0;
  // Of a step, what is expected included: how well the excess is known. Each step ends where the next begins, so that
  // they are worth half as many degrees of freedom as there are (by simulation 0.6).
  Variance of_steps;
};
ExcessVariance excess_variance_of_steps(const std::vector<double>& steps, const std::vector<double>& expected);

}  // namespace causeway::bench
