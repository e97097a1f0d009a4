// AdamW against its formulas in double, through the description that a training step asks.
#include <gtest/gtest.h>

#include <cmath>

#include "causeway/optimizer/optimizer.h"
#include "causeway/tensor/ops.h"
#include "tests/optimizer/optimizer_steps.h"

namespace causeway::optimizer {
namespace {

TEST(AdamW, IsItsFormulas) {
  const Optimizer& adamw = find_optimizer("adamw");
  OptimizerConfig config;
  config.own = {{"beta1", 0.8}, {"beta2", 0.99}, {"epsilon", 1e-3}};
  config = config.resolved();
  const std::vector<OptimizerState> kept = adamw.state(config);
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[0].name, "moment1");
  EXPECT_EQ(kept[1].name, "moment2");
  const double rate = 0.05;
  for (const double decay : {0.1, 0.0}) {
    std::vector<double> p = {1, -2, 0.5, 3}, m(4), v(4);
    OptimizerSteps steps(config, {"weight", Tensor::from_values(p, {2, 2}), decay > 0});
    ASSERT_EQ(steps.state.size(), 2u);
    EXPECT_EQ(adamw.state_bytes(steps.parameter, config), 2 * 4 * 4);
    EXPECT_EQ(adamw.least_state_bytes(4, config), 2 * 4 * 4);
    for (int step = 1; step <= 4; ++step) {
      const std::vector<double> g = {0.5 * step, -0.25, 0, 1.0 / step};
      steps.take(g, rate, decay);
      for (size_t i = 0; i < p.size(); ++i) {
        m[i] = 0.8 * m[i] + 0.2 * g[i];
        v[i] = 0.99 * v[i] + 0.01 * g[i] * g[i];
        const double mean = m[i] / (1 - std::pow(0.8, step)), square = v[i] / (1 - std::pow(0.99, step));
        p[i] = p[i] * (1 - rate * decay) - rate * mean / (std::sqrt(square) + 1e-3);
        EXPECT_NEAR(steps.values()[i], p[i], 1e-6) << step;
        EXPECT_NEAR(steps.state[0].values()[i], m[i], 1e-6) << step;
        EXPECT_NEAR(steps.state[1].values()[i], v[i], 1e-6) << step;
      }
    }
  }
}

}  // namespace
}  // namespace causeway::optimizer
