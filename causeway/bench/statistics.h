// Figures of a measurement's samples.
#pragma once

#include "causeway/bench/result.h"

namespace causeway::bench {

// Of all samples of all rounds, in seconds. Percentiles interpolate linearly between the neighbouring samples: the
// p-th lies at position p / 100 (count - 1) of the sorted samples.
struct Summary {
  size_t samples = 0;
  double median = 0, mean = 0, minimum = 0, p5 = 0, p95 = 0;
};

// Zeros when there are no samples.
Summary summarize(const Measurement& measurement);

// The figure that stands for a measurement, in its unit: the rate of the sample that its statistic names.
double headline(const Measurement& measurement);

// Standard deviation of the rounds' medians over their mean; 0 with fewer than two rounds.
double variation_between_rounds(const Measurement& measurement);

// `fraction` in [0, 1] of the sorted, non-empty values, as above.
double percentile(const std::vector<double>& sorted, double fraction);

}  // namespace causeway::bench
