// What operands are filled with. Power, and with it speed, depends on it: zeros flatter.
#pragma once

#include <string>
#include <string_view>

#include "causeway/tensor/ops.h"

namespace causeway::bench {

enum class InputDistribution { kNormal, kUniform, kIntegers, kZeros };

// "normal", "uniform", "integers" or "zeros". Throws Error(kInvalidArgument) with the nearest for other names.
InputDistribution parse_inputs(const std::string& name);

// As figures are labelled: "normal, mean 0, variance 1", "uniform in [-1, 1)", "integers from -4 to 4", "zeros".
std::string_view describe_inputs(InputDistribution inputs);

// What follows a workload's name where inputs are not the usual ones, so that figures are not taken for each other's:
// "", ", zeros".
std::string inputs_suffix(InputDistribution inputs);

// Drawn by Philox from the seed, on the current runtime's device, evaluated.
Tensor draw_inputs(const std::vector<int64_t>& shape, DType dtype, InputDistribution inputs, int64_t seed);

}  // namespace causeway::bench
