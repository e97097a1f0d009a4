#include "causeway/graph/compare.h"

#include <cmath>
#include <limits>

#include "causeway/base/error.h"

namespace causeway {
namespace {

struct FloatFormat {
  int mantissa_bits;
  int minimum_exponent;  // of the smallest normal number
};

FloatFormat float_format(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return {7, -126};
    case DType::kF16:
      return {10, -14};
    case DType::kF8E4M3:
      return {3, -6};
    case DType::kF8E5M2:
      return {2, -14};
    default:
      return {23, -126};
  }
}

std::string index_text(const std::vector<int64_t>& shape, size_t flat) {
  std::vector<int64_t> index(shape.size());
  auto rest = static_cast<int64_t>(flat);
  for (size_t i = shape.size(); i-- > 0;) {
    index[i] = rest % shape[i];
    rest /= shape[i];
  }
  return fmt::format("[{}]", fmt::join(index, ", "));
}

}  // namespace

double unit_in_last_place(DType dtype, double value) {
  if (!is_float(dtype)) return 1;
  const FloatFormat format = float_format(dtype);
  int exponent = format.minimum_exponent + 1;
  if (value != 0 && std::isfinite(value)) std::frexp(value, &exponent);
  return std::ldexp(1.0, std::max(exponent - 1, format.minimum_exponent) - format.mantissa_bits);
}

Comparison compare(const HostTensor& actual, const HostTensor& reference, const Tolerance& tolerance) {
  Comparison result;
  if (actual.dtype != reference.dtype || actual.shape != reference.shape ||
      actual.values.size() != reference.values.size()) {
    result.equal = false;
    result.text = fmt::format("got {} with {} values, expected {} with {}", actual.type_text(), actual.values.size(),
                              reference.type_text(), reference.values.size());
    return result;
  }
  double worst_ratio = -1;
  for (size_t i = 0; i < actual.values.size(); ++i) {
    const double got = actual.values[i], expected = reference.values[i];
    double error = 0, allowed = 0;
    if (std::isfinite(got) && std::isfinite(expected)) {
      error = std::abs(got - expected);
      allowed = tolerance.absolute + tolerance.relative * std::abs(expected) +
                tolerance.ulps * unit_in_last_place(reference.dtype, expected);
    } else if (!(std::isnan(got) && std::isnan(expected)) && got != expected &&
               got != round_to_dtype(reference.dtype, expected)) {
      error = std::numeric_limits<double>::infinity();
    }
    if (error > allowed && got == round_to_dtype(reference.dtype, expected)) error = allowed;
    if (error > allowed) ++result.mismatches;
    // Elements that agree exactly where nothing is allowed rank below every other.
    const double ratio = error == 0 ? 0 : allowed == 0 ? std::numeric_limits<double>::infinity() : error / allowed;
    if (ratio > worst_ratio || (ratio == worst_ratio && error > result.worst_error)) {
      worst_ratio = ratio;
      result.worst = i;
      result.worst_error = error;
      result.worst_allowed = allowed;
    }
  }
  result.equal = result.mismatches == 0;
  if (actual.values.empty()) {
    result.text = fmt::format("{}: no elements", actual.type_text());
    return result;
  }
  result.text = fmt::format(
      "{}: {} of {} elements outside tolerance; worst at {}: got {}, expected {}, error {:.3g}, "
      "allowed {:.3g}",
      actual.type_text(), result.mismatches, actual.values.size(), index_text(actual.shape, result.worst),
      actual.values[result.worst], reference.values[result.worst], result.worst_error, result.worst_allowed);
  return result;
}

}  // namespace causeway
