// Gradient descent with momentum (Polyak, 1964; Nesterov, 1983), as torch.optim.SGD without dampening. Weight decay is
// added to the gradient.
#include "causeway/optimizer/optimizers.h"
#include "causeway/tensor/optimizer_ops.h"

namespace causeway::optimizer {

Optimizer sgd_optimizer() {
  Optimizer optimizer;
  optimizer.name = "sgd";
  optimizer.keys = {OptimizerKey::below_one("momentum", 0.9, kMomentumMeaning), {"nesterov", false, kNesterovMeaning}};
  optimizer.decouples_decay = false;
  optimizer.state = [](const OptimizerConfig&) { return std::vector<OptimizerState>{{"momentum"}}; };
  optimizer.update = [](const ParameterUpdate& of, const OptimizerConfig& config) {
    const SgdUpdate updated = sgd_update(of.value(), of.gradient, of.state[0], of.learning_rate,
                                         {.momentum = config.own_number("momentum"),
                                          .weight_decay = of.weight_decay,
                                          .nesterov = config.own_truth("nesterov")});
    return UpdatedParameter{updated.parameter, {updated.momentum}};
  };
  return optimizer;
}

}  // namespace causeway::optimizer
