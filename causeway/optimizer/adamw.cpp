// Loshchilov and Hutter, 2019 (1711.05101), as torch.optim.AdamW; its moments in f32, bf16 or 8 bits (kept_moment.h).
#include "causeway/optimizer/kept_moment.h"
#include "causeway/optimizer/optimizers.h"
#include "causeway/tensor/optimizer_ops.h"

namespace causeway::optimizer {

Optimizer adamw_optimizer() {
  Optimizer optimizer;
  optimizer.name = "adamw";
  optimizer.keys = {OptimizerKey::below_one("beta1", 0.9, kBeta1Meaning),
                    OptimizerKey::below_one("beta2", 0.95, kBeta2Meaning),
                    OptimizerKey::above_zero("epsilon", 1e-8, "added to the root of the second moment")};
  for (OptimizerKey& key : moment_keys()) optimizer.keys.push_back(std::move(key));
  optimizer.state = [](const OptimizerConfig& config) {
    std::vector<OptimizerState> kept = moment_states("moment1", config);
    for (OptimizerState& one : moment_states("moment2", config)) kept.push_back(std::move(one));
    return kept;
  };
  optimizer.update = [](const ParameterUpdate& of, const OptimizerConfig& config) {
    const AdamWOptions options{config.own_number("beta1"), config.own_number("beta2"), config.own_number("epsilon"),
                               of.weight_decay};
    const std::span<const Tensor> state = of.state, first = state.first(state.size() / 2),
                                  second = state.subspan(state.size() / 2);
    const AdamWUpdate updated =
        adamw_update(of.value(), of.gradient, kept_moment(first, Average::kOfValues),
                     kept_moment(second, Average::kOfSquares), of.learning_rate, of.step, options);
    UpdatedParameter result{updated.parameter, keep_moment(updated.first_moment, first, Average::kOfValues,
                                                           random_16_bits(of, config, Average::kOfValues))};
    for (Tensor& one : keep_moment(updated.second_moment, second, Average::kOfSquares,
                                   random_16_bits(of, config, Average::kOfSquares)))
      result.state.push_back(std::move(one));
    return result;
  };
  return optimizer;
}

}  // namespace causeway::optimizer
