// A parameter, and what an optimizer keeps of it, taken from step to step as a training step takes them.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "causeway/optimizer/optimizer.h"
#include "causeway/tensor/ops.h"

namespace causeway::optimizer {

class OptimizerSteps {
 public:
  OptimizerSteps(const OptimizerConfig& config, Parameter of)
      : parameter(std::move(of)), config_(config.resolved()), optimizer_(find_optimizer(config_.name)) {
    for (const OptimizerState& one : optimizer_.state_of(parameter, config_))
      state.push_back(Tensor::zeroed(evaluate(one.shape(parameter), {}), one.dtype));
  }

  // The next one, counted from 1, by a gradient of the parameter's elements.
  void take(const std::vector<double>& gradient, double rate, double decay) {
    ++taken;
    const ParameterUpdate of = {parameter,
                                Tensor::from_values(gradient, evaluate(parameter.tensor.shape(), {})),
                                state,
                                full({}, rate),
                                full({}, taken),
                                decay,
                                seed};
    UpdatedParameter updated;
    optimizer_.update_each({of}, config_, [&](size_t, const UpdatedParameter& one) { updated = one; });
    CAUSEWAY_CHECK(updated.state.size() == state.size());
    parameter.tensor = updated.parameter;
    state = updated.state;
  }

  std::vector<double> values() const { return parameter.tensor.values(); }
  const OptimizerConfig& config() const { return config_; }

  Parameter parameter;
  std::vector<Tensor> state;
  int64_t taken = 0, seed = 0;

 private:
  OptimizerConfig config_;
  const Optimizer& optimizer_;
};

}  // namespace causeway::optimizer
