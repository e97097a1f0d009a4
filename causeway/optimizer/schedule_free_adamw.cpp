// Defazio et al., The Road Less Scheduled, 2024 (2405.15682), as the authors' AdamWScheduleFree. There are three
// sequences: z takes AdamW's steps without momentum, x is its average, and gradients are taken at y between them. The
// parameter is x, which is what is evaluated, sampled from, saved and exported; z is kept, and y computed of both.
#include <cmath>

#include "causeway/optimizer/kept_moment.h"
#include "causeway/optimizer/optimizers.h"
#include "causeway/tensor/ops.h"

namespace causeway::optimizer {
namespace {

enum Kept : size_t { kBase, kLargestRate, kSumOfWeights, kSecondMoment };

// z. All three sequences begin at the same weights.
Tensor base_of(const ParameterUpdate& of) {
  const Tensor& base = of.state[kBase];
  return where(broadcast_to(le(of.step, 1.0), base.shape()), of.value(), base);
}

Tensor gradient_point_of(const ParameterUpdate& of, const OptimizerConfig& config) {
  const double average = config.own_number("interpolation");
  return average * of.value() + (1 - average) * base_of(of);
}

UpdatedParameter schedule_free_update(const ParameterUpdate& of, const OptimizerConfig& config) {
  const double beta2 = config.own_number("beta2");
  const std::span<const Tensor> kept = std::span(of.state).subspan(kSecondMoment);
  const Tensor& g = of.gradient;
  const Tensor second = beta2 * kept_moment(kept, Average::kOfSquares) + (1 - beta2) * (g * g);
  const Tensor correction = -expm1(of.step * std::log(beta2));
  Tensor direction = g / (sqrt(second / correction) + config.own_number("epsilon"));
  if (of.weight_decay != 0) direction = direction + of.weight_decay * gradient_point_of(of, config);
  const Tensor base = base_of(of) - of.learning_rate * direction;
  const Tensor largest = maximum(of.state[kLargestRate], of.learning_rate);
  const Tensor weight =
      pow(of.step, config.own_number("average_step_power")) * pow(largest, config.own_number("average_rate_power"));
  const Tensor sum_of_weights = of.state[kSumOfWeights] + weight;
  const Tensor share = where(gt(sum_of_weights, 0.0), weight / sum_of_weights, 0.0);
  const Tensor& average = of.value();
  UpdatedParameter updated{average + share * (base - average), {base, largest, sum_of_weights}};
  for (Tensor& one : keep_moment(second, kept, Average::kOfSquares, random_16_bits(of, config, Average::kOfSquares)))
    updated.state.push_back(std::move(one));
  return updated;
}

}  // namespace

Optimizer schedule_free_adamw_optimizer() {
  Optimizer optimizer;
  optimizer.name = "schedule_free_adamw";
  const auto not_negative = [](const OptimizerValue& value) -> std::string {
    return std::get<double>(value) >= 0 ? "" : "must not be negative";
  };
  optimizer.keys = {
      OptimizerKey::below_one("interpolation", 0.9, "of the averaged weights in those at which gradients are taken"),
      OptimizerKey::below_one("beta2", 0.95, kBeta2Meaning),
      OptimizerKey::above_zero("epsilon", 1e-8, "added to the root of the second moment"),
      {"average_step_power", 0.0, "later steps weigh so much more in the average: step to this power", not_negative},
      {"average_rate_power", 2.0, "and the largest learning rate so far to this power", not_negative}};
  for (OptimizerKey& key : moment_keys()) optimizer.keys.push_back(std::move(key));
  optimizer.state = [](const OptimizerConfig& config) {
    const auto one_number = [](const Parameter& parameter) {
      return std::vector<int64_t>(parameter.tensor.shape().size(), OptimizerState::kWholeDim);
    };
    std::vector<OptimizerState> kept = {{.name = "base", .begins_as_parameter = true},
                                        {"largest_rate", DType::kF32, {}, one_number},
                                        {"sum_of_weights", DType::kF32, {}, one_number}};
    for (OptimizerState& one : moment_states("moment2", config)) kept.push_back(std::move(one));
    return kept;
  };
  optimizer.decouples_decay = false;  // it is part of the direction, at the point of gradients
  optimizer.gradient_point = gradient_point_of;
  optimizer.update = schedule_free_update;
  return optimizer;
}

}  // namespace causeway::optimizer
