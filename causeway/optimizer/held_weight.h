// What is kept of a weight from step to step: what it lies in (optimizer.weights: f32, bf16_stochastic or bf16_kahan)
// and, with optimizer.average_decay, the average beside what is trained. Updates are computed in f32, and rounded where
// they are stored; there is no f32 copy.
//
// bf16_stochastic: up or down at random, so that small steps move a weight in the mean (stochastic_rounding.h).
//
// bf16_kahan: to nearest, and what was rounded off is kept in bf16 as "compensation.NAME" (Zamirai et al., Revisiting
// BFloat16 Training, 2020 (2010.06192), algorithm 3, with its sums in f32). A step begins with the sum of the two,
// which has 16 bits of mantissa or more; the model computes with the weight alone.
//
// Vectors (norms, biases) lie in f32 with either.
#pragma once

#include <vector>

#include "causeway/optimizer/optimizer.h"
#include "causeway/tensor/tensor.h"

namespace causeway::optimizer {

// What is kept beside what the optimizer keeps; it stands behind that, in this order: the trained weight where the
// parameter is its average, what was rounded off of the parameter, and what was of the trained weight.
std::vector<OptimizerState> weight_states(const Parameter& parameter, const OptimizerConfig& config);

// Bytes of it for each element of a matrix.
int64_t weight_state_bytes_of_element(const OptimizerConfig& config);

// f32 of the parameter's shape. `average` is undefined where the parameter is none.
struct WeightValues {
  Tensor trained, average;
};
// Before a step, of the parameter and all that is kept of it.
WeightValues weight_values(const ParameterUpdate& of, const OptimizerConfig& config);
// After it, as they lie: `updated` is the optimizer's, of `before`.
UpdatedParameter stored_weights(const ParameterUpdate& of, const WeightValues& before, UpdatedParameter updated,
                                const OptimizerConfig& config);

// What is trained, as it lies, without what was rounded off: what the model computes with where that is not the
// parameter.
Tensor trained_weight(const ParameterUpdate& of, const OptimizerConfig& config);

}  // namespace causeway::optimizer
