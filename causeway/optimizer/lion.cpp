// Chen et al., Symbolic Discovery of Optimization Algorithms, 2023 (2302.06675), as the authors' program: a step is the
// sign of a running average of gradients.
#include "causeway/optimizer/optimizers.h"
#include "causeway/tensor/ops.h"

namespace causeway::optimizer {

Optimizer lion_optimizer() {
  Optimizer optimizer;
  optimizer.name = "lion";
  optimizer.keys = {OptimizerKey::below_one("beta1", 0.9, kBeta1Meaning),
                    OptimizerKey::below_one("beta2", 0.99, kBeta2Meaning)};
  optimizer.state = [](const OptimizerConfig&) { return std::vector<OptimizerState>{{"momentum"}}; };
  optimizer.update = [](const ParameterUpdate& of, const OptimizerConfig& config) {
    const double beta1 = config.own_number("beta1"), beta2 = config.own_number("beta2");
    const Tensor &p = of.value(), &m = of.state[0], &g = of.gradient;
    const Tensor direction = sign(beta1 * m + (1 - beta1) * g);
    const Tensor decayed = of.weight_decay == 0 ? p : p * (1.0 - of.learning_rate * of.weight_decay);
    return UpdatedParameter{decayed - direction * of.learning_rate, {beta2 * m + (1 - beta2) * g}};
  };
  return optimizer;
}

}  // namespace causeway::optimizer
