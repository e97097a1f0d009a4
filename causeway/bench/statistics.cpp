#include "causeway/bench/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace causeway::bench {
namespace {

std::vector<double> sorted_copy(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values;
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

double percentile(const std::vector<double>& sorted, double fraction) {
  const double position = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

Summary summarize(const Measurement& measurement) {
  std::vector<double> all;
  for (const std::vector<double>& round : measurement.rounds) all.insert(all.end(), round.begin(), round.end());
  if (all.empty()) return {};
  all = sorted_copy(std::move(all));
  return {all.size(), percentile(all, 0.5), mean_of(all), all.front(), percentile(all, 0.05), percentile(all, 0.95)};
}

double headline(const Measurement& measurement) {
  const Summary summary = summarize(measurement);
  return measurement.rate(measurement.statistic == Statistic::kMinimum ? summary.minimum : summary.median);
}

double variation_between_rounds(const Measurement& measurement) {
  std::vector<double> medians;
  for (const std::vector<double>& round : measurement.rounds)
    if (!round.empty()) medians.push_back(percentile(sorted_copy(round), 0.5));
  if (medians.size() < 2) return 0;
  const double mean = mean_of(medians);
  double squares = 0;
  for (const double median : medians) squares += (median - mean) * (median - mean);
  return std::sqrt(squares / static_cast<double>(medians.size() - 1)) / mean;
}

}  // namespace causeway::bench
