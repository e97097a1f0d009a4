// Optimizers against what the published implementations give after six steps in f64: PyTorch 2.11's torch.optim.AdamW
// and Adafactor, and the authors' formulas of AdamWScheduleFree (in y and z, x by them). A matrix [3, 4] that decays
// and a vector [5] that does not begin at sin(1 + i); the gradient of step s is cos(3 i + s), of odd elements a tenth
// of it, and of the vector that of s + 1/2.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "causeway/optimizer/optimizer.h"
#include "causeway/tensor/ops.h"
#include "tests/optimizer/optimizer_steps.h"

namespace causeway::optimizer {
namespace {

struct Published {
  std::string optimizer;
  std::map<std::string, OptimizerValue> own;
  std::function<double(int)> rate;
  double decay;
  std::vector<double> matrix, vector;
};

std::vector<double> elements(size_t count, const std::function<double(double)>& of) {
  std::vector<double> values;
  for (size_t i = 0; i < count; ++i) values.push_back(of(static_cast<double>(i)));
  return values;
}

// After six steps.
std::vector<double> trained(const Published& published, const std::vector<int64_t>& shape, double shift, double decay) {
  OptimizerConfig config;
  config.name = published.optimizer;
  config.own = published.own;
  size_t count = 1;
  for (const int64_t size : shape) count *= static_cast<size_t>(size);
  OptimizerSteps steps(
      config,
      {"weight", Tensor::from_values(elements(count, [](double i) { return std::sin(1 + i); }), shape), decay > 0});
  const Shape before = steps.parameter.tensor.shape();
  for (int step = 1; step <= 6; ++step) {
    steps.take(
        elements(count,
                 [&](double i) { return std::cos(3 * i + step + shift) * (static_cast<int>(i) % 2 != 0 ? 0.1 : 1.0); }),
        published.rate(step), decay);
    EXPECT_EQ(steps.parameter.tensor.shape(), before);
  }
  return steps.values();
}

void expect_near(const std::vector<double>& is, const std::vector<double>& expected, const std::string& what) {
  ASSERT_EQ(is.size(), expected.size()) << what;
  for (size_t i = 0; i < is.size(); ++i) EXPECT_NEAR(is[i], expected[i], 2e-6) << what << ", " << i;
}

TEST(PublishedValues, AreThoseOfEveryOptimizer) {
  const auto constant = [](double rate) { return [rate](int) { return rate; }; };
  const std::vector<Published> all = {
      {"adamw",
       {{"beta1", 0.8}, {"beta2", 0.95}, {"epsilon", 1e-6}},
       constant(0.05),
       0.1,
       {0.845164828585, 0.870403931729, 0.132576355649, -0.714762286555, -0.964341076887, -0.223909576357,
        0.57749397283, 1.03239355746, 0.315664032203, -0.432171004764, -1.07717273395, -0.403226354583},
       {0.907974230386, 0.848255850458, 0.192127022092, -0.793685639852, -0.938613543658}},
      {"adafactor",
       {},
       constant(0.05),
       0.1,
       {0.82950223041, 0.872034982908, 0.145055318448, -0.740476536022, -0.916054995081, -0.286431164005,
        0.653386035978, 0.944064484877, 0.415177466154, -0.544069031272, -0.954049296888, -0.536338435076},
       {0.817863536613, 0.92037300093, 0.140983579034, -0.765016502105, -0.945318856583}},
      {"adafactor",
       {{"decay_power", -0.5}, {"clip_threshold", 1.25}},
       constant(2),
       0.01,
       {1.40118076395, 0.271157745224, 0.542984280487, -0.974118642836, -0.46217338598, -0.561844271142, 0.820358971574,
        0.721528048565, 0.477653060082, -0.522044263636, -0.92942629511, -0.335504202665},
       {0.672217810541, 0.923053251823, 0.261934194995, -0.973915192315, -0.708196265949}},
      {"schedule_free_adamw",
       {{"interpolation", 0.9}, {"beta2", 0.95}, {"epsilon", 1e-6}, {"average_step_power", 0.5}},
       [](int step) { return 0.05 * std::min(1.0, step / 3.0); },
       0.1,
       {0.90777621391, 0.813757721687, 0.216368765619, -0.81811613184, -0.872666082732, -0.339635284659, 0.704931129585,
        0.920208535919, 0.449766052646, -0.570860488157, -0.956330846621, -0.543845212625},
       {0.896226595148, 0.842554710393, 0.216642996662, -0.837077804135, -0.877700954175}}};
  for (const Published& one : all) {
    expect_near(trained(one, {3, 4}, 0, one.decay), one.matrix, one.optimizer + ", matrix");
    expect_near(trained(one, {5}, 0.5, 0), one.vector, one.optimizer + ", vector");
  }
}

}  // namespace
}  // namespace causeway::optimizer
