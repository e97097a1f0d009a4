#include "causeway/optimizer/held_weight.h"

#include <utility>

#include "causeway/optimizer/stochastic_rounding.h"
#include "causeway/tensor/ops.h"

namespace causeway::optimizer {
namespace {

bool averages(const OptimizerConfig& config) { return config.average_decay > 0; }

bool is_compensated(const Parameter& parameter, const OptimizerConfig& config) {
  return parameter.tensor.dtype() == DType::kBF16 && config.weights == HeldWeights::kBf16Kahan;
}

// The tensors of weight_states(); undefined where there is none.
struct KeptWeights {
  Tensor trained, compensation, trained_compensation;
};

KeptWeights kept_of_weight(const ParameterUpdate& of, const OptimizerConfig& config) {
  KeptWeights kept;
  auto next = of.state.end() - static_cast<std::ptrdiff_t>(weight_states(of.parameter, config).size());
  if (averages(config)) kept.trained = *next++;
  if (!is_compensated(of.parameter, config)) return kept;
  kept.compensation = *next++;
  if (averages(config)) kept.trained_compensation = *next;
  return kept;
}

// The trained weight and the average begin at the same values.
Tensor trained_of(const ParameterUpdate& of, const KeptWeights& kept) {
  if (!kept.trained.defined()) return of.parameter.tensor;
  return where(broadcast_to(le(of.step, 1.0), kept.trained.shape()), of.parameter.tensor, kept.trained);
}

Tensor value_of(const Tensor& held, const Tensor& compensation) {
  const Tensor value = cast(held, DType::kF32);
  return compensation.defined() ? value + cast(compensation, DType::kF32) : value;
}

struct StoredWeight {
  Tensor weight, compensation;
};

// `random`: 16 bits, undefined to round to nearest.
StoredWeight store_weight(const Tensor& value, const ParameterUpdate& of, const OptimizerConfig& config,
                          const Tensor& random) {
  const DType held = of.parameter.tensor.dtype();
  if (random.defined()) return {cast(stochastically_rounded_to_bf16(value, random), held), {}};
  const Tensor weight = cast(value, held);
  if (!is_compensated(of.parameter, config)) return {weight, {}};
  return {weight, cast(value - cast(weight, DType::kF32), held)};
}

}  // namespace

std::vector<OptimizerState> weight_states(const Parameter& parameter, const OptimizerConfig& config) {
  std::vector<OptimizerState> states;
  if (averages(config))
    states.push_back({.name = "trained", .dtype = parameter.tensor.dtype(), .begins_as_parameter = true});
  if (!is_compensated(parameter, config)) return states;
  states.push_back({.name = "compensation", .dtype = DType::kBF16});
  if (averages(config)) states.push_back({.name = "trained_compensation", .dtype = DType::kBF16});
  return states;
}

int64_t weight_state_bytes_of_element(const OptimizerConfig& config) {
  const bool wide = config.weights == HeldWeights::kF32;
  const auto bytes = static_cast<int64_t>(size_bytes(wide ? DType::kF32 : DType::kBF16));
  const int64_t weights = averages(config) ? 2 : 1;  // of which the parameter itself is one
  return bytes * (weights - 1 + (config.weights == HeldWeights::kBf16Kahan ? weights : 0));
}

WeightValues weight_values(const ParameterUpdate& of, const OptimizerConfig& config) {
  const KeptWeights kept = kept_of_weight(of, config);
  if (!averages(config)) return {value_of(of.parameter.tensor, kept.compensation), {}};
  return {value_of(trained_of(of, kept), kept.trained_compensation), value_of(of.parameter.tensor, kept.compensation)};
}

Tensor trained_weight(const ParameterUpdate& of, const OptimizerConfig& config) {
  return trained_of(of, kept_of_weight(of, config));
}

UpdatedParameter stored_weights(const ParameterUpdate& of, const WeightValues& before, UpdatedParameter updated,
                                const OptimizerConfig& config) {
  const bool rounds = of.parameter.tensor.dtype() == DType::kBF16 && config.weights == HeldWeights::kBf16Stochastic;
  const Tensor bits = rounds ? rounding_bits(of, RoundingStream::kWeights) : Tensor();
  const Tensor trained = updated.parameter;
  Tensor value = trained;
  StoredWeight stored_trained;
  if (averages(config)) {
    constexpr double kWarmUp = 9;
    const Tensor decay = minimum(of.step / (of.step + kWarmUp), config.average_decay);
    stored_trained = store_weight(trained, of, config, rounds ? upper_16_bits(bits) : Tensor());
    updated.state.push_back(stored_trained.weight);
    value = before.average + (1.0 - decay) * (trained - before.average);
  }
  const StoredWeight stored = store_weight(value, of, config, rounds ? lower_16_bits(bits) : Tensor());
  updated.parameter = stored.weight;
  if (stored.compensation.defined()) updated.state.push_back(stored.compensation);
  if (stored_trained.compensation.defined()) updated.state.push_back(stored_trained.compensation);
  return updated;
}

}  // namespace causeway::optimizer
