#include "tests/comparison/comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "causeway/base/error.h"

namespace causeway {

using namespace graph;
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

// Root of the mean square of the finite elements; 0 where there are none.
double finite_rms(std::span<const double> values) {
  double sum = 0;
  size_t count = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    sum += value * value;
    ++count;
  }
  return count == 0 ? 0 : std::sqrt(sum / static_cast<double>(count));
}

bool is_narrow(DType dtype) { return is_float(dtype) && size_bytes(dtype) < 4; }

// The error of an element, infinite where one is a NaN or an infinity and the other is not.
double element_error(DType dtype, double got, double expected) {
  if (got == expected || (std::isnan(got) && std::isnan(expected))) return 0;
  if (got == round_to_dtype(dtype, expected)) return 0;
  if (!std::isfinite(got) || !std::isfinite(expected)) return std::numeric_limits<double>::infinity();
  return std::abs(got - expected);
}

double allowed_rms(const Bound& bound, DType dtype, size_t count) {
  if (!is_narrow(dtype) || bound.ulps == 0) return bound.rms;
  return bound.rms + unit_in_last_place(dtype, 1) * (kFlippedShare + 2 / std::sqrt(static_cast<double>(count)));
}

}  // namespace

double unit_in_last_place(DType dtype, double value) {
  if (!is_float(dtype)) return 1;
  const FloatFormat format = float_format(dtype);
  int exponent = format.minimum_exponent + 1;
  if (value != 0 && std::isfinite(value)) std::frexp(value, &exponent);
  return std::ldexp(1.0, std::max(exponent - 1, format.minimum_exponent) - format.mantissa_bits);
}

Comparison compare(const HostTensor& actual, const HostTensor& reference, const Bound& bound) {
  Comparison result;
  if (actual.dtype != reference.dtype || actual.shape != reference.shape ||
      actual.values.size() != reference.values.size()) {
    result.equal = false;
    result.text = fmt::format("got {} with {} values, expected {} with {}", actual.type_text(), actual.values.size(),
                              reference.type_text(), reference.values.size());
    return result;
  }
  const DType dtype = reference.dtype;
  const size_t count = reference.values.size();
  if (count == 0) {
    result.text = fmt::format("{}: no elements", actual.type_text());
    return result;
  }
  const bool by_rms = is_float(dtype) && !bound.demands_equality() && bound.absolute == 0;
  result.reference_rms = finite_rms(reference.values);
  const bool any_finite =
      std::any_of(reference.values.begin(), reference.values.end(), [](double value) { return std::isfinite(value); });
  if (by_rms && any_finite && result.reference_rms < kLeastReferenceRms) {
    result.equal = false;
    result.text = fmt::format(
        "{}: the rms of the reference is {:.3g}, from which a fault need not differ: choose inputs that give values of "
        "order 1",
        actual.type_text(), result.reference_rms);
    return result;
  }

  const size_t width = reference.shape.empty() ? 1 : static_cast<size_t>(reference.shape.back());
  double squares = 0, worst_ratio = -1, unit = 0;
  for (size_t i = 0; i < count; ++i) {
    if (i % width == 0)
      unit = std::max(finite_rms(std::span(reference.values).subspan(i, width)), result.reference_rms / 2);
    const double got = actual.values[i], expected = reference.values[i];
    const double error = element_error(dtype, got, expected);
    if (std::isfinite(error)) squares += error * error;
    if (error > 0) result.row = std::max(result.row, error / unit);
    double allowed = 0;
    if (is_float(dtype) && std::isfinite(expected) && std::isfinite(got))
      allowed = bound.absolute + bound.row * unit + bound.ulps * unit_in_last_place(dtype, expected);
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
  const double error_rms = std::sqrt(squares / static_cast<double>(count));
  result.rms = error_rms == 0 ? 0 : error_rms / result.reference_rms;
  const double rms_allowed = allowed_rms(bound, dtype, count);
  result.equal = result.mismatches == 0 && (!by_rms || result.rms <= rms_allowed);
  result.text = fmt::format(
      "{}: {} of {} elements outside of their bound; worst at {}: got {}, expected {}, error {:.3g}, allowed {:.3g}",
      actual.type_text(), result.mismatches, count, index_text(actual.shape, result.worst), actual.values[result.worst],
      reference.values[result.worst], result.worst_error, result.worst_allowed);
  if (by_rms)
    result.text += fmt::format("; rms of the error {:.3g} of the reference's {:.3g}, allowed {:.3g}", result.rms,
                               result.reference_rms, rms_allowed);
  return result;
}

}  // namespace causeway
