// Loshchilov and Hutter, 2019 (1711.05101), as torch.optim.AdamW.
#include "causeway/optimizer/optimizers.h"
#include "causeway/tensor/optimizer_ops.h"

namespace causeway::optimizer {

Optimizer adamw_optimizer() {
  Optimizer optimizer;
  optimizer.name = "adamw";
  optimizer.keys = {OptimizerKey::below_one("beta1", 0.9, "decay of the first moment"),
                    OptimizerKey::below_one("beta2", 0.95, "decay of the second moment"),
                    OptimizerKey::above_zero("epsilon", 1e-8, "added to the root of the second moment")};
  optimizer.state = [](const OptimizerConfig&) { return std::vector<OptimizerState>{{"moment1"}, {"moment2"}}; };
  optimizer.update = [](const ParameterUpdate& of, const OptimizerConfig& config) {
    const AdamWOptions options{config.own_number("beta1"), config.own_number("beta2"), config.own_number("epsilon"),
                               of.weight_decay};
    const AdamWUpdate updated =
        adamw_update(of.parameter.tensor, of.gradient, of.state[0], of.state[1], of.learning_rate, of.step, options);
    return UpdatedParameter{updated.parameter, {updated.first_moment, updated.second_moment}};
  };
  return optimizer;
}

}  // namespace causeway::optimizer
