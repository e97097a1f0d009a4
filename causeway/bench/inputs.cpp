#include "causeway/bench/inputs.h"

#include <array>

#include "causeway/bench/choices.h"

namespace causeway::bench {
namespace {

constexpr std::array<const char*, 4> kNames = {"normal", "uniform", "integers", "zeros"};  // as the enum

}  // namespace

InputDistribution parse_inputs(const std::string& name) {
  return static_cast<InputDistribution>(
      choose("distribution of inputs", name, "--inputs", {kNames.begin(), kNames.end()}));
}

std::string_view describe_inputs(InputDistribution inputs) {
  switch (inputs) {
    case InputDistribution::kNormal:
      return "normal, mean 0, variance 1";
    case InputDistribution::kUniform:
      return "uniform in [-1, 1)";
    case InputDistribution::kIntegers:
      return "integers from -4 to 4";
    default:
      return "zeros";
  }
}

std::string inputs_suffix(InputDistribution inputs) {
  return inputs == InputDistribution::kNormal ? "" : ", " + std::string(kNames[static_cast<size_t>(inputs)]);
}

Tensor draw_inputs(const std::vector<int64_t>& sizes, DType dtype, InputDistribution inputs, int64_t seed) {
  if (inputs == InputDistribution::kZeros) return Tensor::zeroed(sizes, dtype);
  const Shape shape(sizes.begin(), sizes.end());
  const Tensor key = random_key(seed);
  Tensor values;
  switch (inputs) {
    case InputDistribution::kUniform:
      values = rand(shape, key) * 2.0 - 1.0;
      break;
    case InputDistribution::kIntegers:
      values = cast(randint(-4, 5, shape, key, DType::kI32), DType::kF32);
      break;
    default:
      values = randn(shape, key);
      break;
  }
  values = cast(values, dtype);
  values.evaluate();
  return values;
}

}  // namespace causeway::bench
