// Optimizers against what the published programs give after six steps in f64: PyTorch 2.11's torch.optim.SGD and Muon
// (with f64 where it has bf16), the authors' Lion, and NorMuon's formulas. A parameter begins at sin(1 + i); the
// gradient of step s is cos(3 i + s + shift), of odd elements a tenth of it. The rate is 0.05.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>

#include "causeway/base/error.h"
#include "causeway/optimizer/optimizer.h"
#include "causeway/optimizer/orthogonal_update.h"
#include "causeway/tensor/ops.h"
#include "tests/optimizer/optimizer_steps.h"

namespace causeway::optimizer {
namespace {

struct SixSteps {
  std::string optimizer;
  std::map<std::string, OptimizerValue> own;
  double decay;
  std::string name;
  std::vector<int64_t> shape;
  bool input_first;
  double shift;
  std::vector<double> expected;
};

std::vector<double> values_of(size_t count, const std::function<double(double)>& of) {
  std::vector<double> values;
  for (size_t i = 0; i < count; ++i) values.push_back(of(static_cast<double>(i)));
  return values;
}

std::vector<double> after_six_steps(const SixSteps& one) {
  OptimizerConfig config;
  config.name = one.optimizer;
  config.learning_rate = 0.05;
  config.own = one.own;
  const size_t count = one.expected.size();
  const auto start = values_of(count, [](double i) { return std::sin(1 + i); });
  Parameter parameter{one.name, Tensor::from_values(start, one.shape), one.decay > 0};
  parameter.input_first = one.input_first;
  OptimizerSteps steps(config, parameter);
  const double rate = 0.05 * find_optimizer(config.name).rate_factor_of(parameter, steps.config());
  for (int step = 1; step <= 6; ++step)
    steps.take(values_of(count,
                         [&](double i) {
                           return std::cos(3 * i + step + one.shift) * (static_cast<int>(i) % 2 != 0 ? 0.1 : 1.0);
                         }),
               rate, one.decay);
  return steps.values();
}

TEST(StepByStep, OptimizersAreThePublishedOnes) {
  const std::vector<SixSteps> all = {
      {"sgd",
       {{"momentum", 0.9}, {"nesterov", false}},
       0.1,
       "model.layers.0.weight",
       {3, 4},
       false,
       0,
       {0.909446240037, 0.818241078824, 0.211545333873, -0.695508658385, -0.85760435199, -0.253282935352,
        0.549725911152, 0.910820298106, 0.263363130085, -0.48222494719, -1.07893952823, -0.470646485949}},
      {"sgd",
       {{"momentum", 0.9}, {"nesterov", false}},
       0.0,
       "model.layers.0.weight",
       {5},
       false,
       0.5,
       {1.06237041793, 0.888941213387, 0.32327054621, -0.772511815073, -0.830032638926}},
      {"sgd",
       {{"momentum", 0.9}, {"nesterov", true}},
       0.1,
       "model.layers.0.weight",
       {3, 4},
       false,
       0,
       {0.890150152103, 0.800247970655, 0.21509930842, -0.681754520082, -0.823872495118, -0.249693300903,
        0.559231592816, 0.888889958403, 0.283318221492, -0.474569931322, -1.02789813808, -0.463356221561}},
      {"sgd",
       {{"momentum", 0.9}, {"nesterov", true}},
       0.0,
       "model.layers.0.weight",
       {5},
       false,
       0.5,
       {1.04990054965, 0.889867270433, 0.317404623951, -0.772276428315, -0.828827339158}},
      {"lion",
       {{"beta1", 0.9}, {"beta2", 0.99}},
       0.1,
       "model.layers.0.weight",
       {3, 4},
       false,
       0,
       {0.815790342204, 0.883107194695, 0.235689007467, -0.735115417522, -0.929778673625, -0.271872199203,
        0.638256815475, 0.959310963366, 0.400643529739, -0.628638211579, -0.9681354125, -0.522903202455}},
      {"muon",
       {{"nesterov", true}, {"update_scale", std::string("original")}},
       0.1,
       "model.layers.0.weight",
       {3, 4},
       false,
       0,
       {0.860725623536, 0.880152688193, 0.136403178075, -0.732069711579, -0.907781080132, -0.271054833084,
        0.613159828089, 0.964787380264, 0.39408925105, -0.525559719748, -1.01094298998, -0.514984243743}},
      {"muon",
       {{"nesterov", true}, {"update_scale", std::string("match_rms_adamw")}},
       0.1,
       "model.layers.0.weight",
       {3, 4},
       false,
       0,
       {0.834214436062, 0.881475410769, 0.136724657035, -0.733456086507, -0.921420684865, -0.271104204118,
        0.627776971883, 0.961942578763, 0.397580769626, -0.526965766209, -0.98659499963, -0.518399062833}},
      {"muon",
       {{"nesterov", false}, {"update_scale", std::string("original")}},
       0.1,
       "model.layers.0.weight",
       {3, 4},
       false,
       0,
       {0.906768790764, 0.877444701196, 0.143977746996, -0.730861477862, -0.885443922419, -0.271456102925,
        0.598767753002, 0.968038259374, 0.38574468175, -0.523528959039, -1.04280717798, -0.510705943047}},
      {"muon",
       {{"nesterov", false}, {"update_scale", std::string("match_rms_adamw")}},
       0.1,
       "model.layers.0.weight",
       {3, 4},
       false,
       0,
       {0.852631702953, 0.88039221597, 0.139754484603, -0.73297279302, -0.91248582178, -0.271264712054, 0.622020141848,
        0.963242930407, 0.394242941906, -0.526153461925, -0.999340674828, -0.516687742555}},
      {"muon",
       {{"nesterov", true}, {"update_scale", std::string("original")}},
       0.1,
       "model.layers.0.weight",
       {6, 3},
       false,
       0,
       {0.893091849257, 0.878494564744, 0.145791445751, -0.739195263423, -0.912802347093, -0.267694751166,
        0.656629541934, 0.963858875756, 0.350500264118, -0.524994996302, -1.00678798681, -0.511660739948,
        0.356401412825, 0.970156159071, 0.556918874272, -0.270717957657, -0.998729151046, -0.720274408945}},
      {"muon",
       {{"nesterov", true}, {"update_scale", std::string("match_rms_adamw")}},
       0.1,
       "model.layers.0.weight",
       {6, 3},
       false,
       0,
       {0.843058541783, 0.881019160773, 0.140005561699, -0.736048276086, -0.924378343122, -0.269944647241,
        0.644140873102, 0.961366847944, 0.382792951483, -0.526895723273, -0.982980989525, -0.517552766685,
        0.389941766912, 0.96434050784, 0.605351560367, -0.276375108548, -0.95571283886, -0.725805720271}},
      {"muon",
       {{"nesterov", false}, {"update_scale", std::string("original")}},
       0.1,
       "model.layers.0.weight",
       {6, 3},
       false,
       0,
       {0.970345890173, 0.871885401569, 0.153278249175, -0.746097200617, -0.899148572723, -0.265173049108,
        0.685782532077, 0.965346697601, 0.293432488828, -0.523226218172, -1.04429816753, -0.503212674119,
        0.317647784883, 0.978730189492, 0.474066459796, -0.261480112958, -1.06192012354, -0.711639312965}},
      {"muon",
       {{"nesterov", false}, {"update_scale", std::string("match_rms_adamw")}},
       0.1,
       "model.layers.0.weight",
       {6, 3},
       false,
       0,
       {0.869820126574, 0.87872967949, 0.142599066483, -0.738439177264, -0.919648536937, -0.269071104023,
        0.654239765126, 0.96188224455, 0.363024094228, -0.526283000556, -0.995974897288, -0.514626270837,
        0.376517116397, 0.967310639102, 0.576650642086, -0.273175025274, -0.977602833847, -0.722814435278}},
      {"normuon",
       {{"row_beta2", 0.9}, {"update_scale", std::string("original")}},
       0.1,
       "model.layers.0.weight",
       {3, 4},
       false,
       0,
       {0.851545808222, 0.880433388269, 0.140025173993, -0.733067561412, -0.90191556476, -0.270671062029,
        0.599695703412, 0.96706948569, 0.395360550877, -0.525729400502, -1.00885463633, -0.515228053877}},
      {"normuon",
       {{"row_beta2", 0.9}, {"update_scale", std::string("original")}},
       0.1,
       "model.layers.0.weight",
       {6, 3},
       false,
       0,
       {0.884967134809, 0.879129905397, 0.13771435444, -0.743928382473, -0.894439228427, -0.266041582722,
        0.659902453387, 0.962515637541, 0.364544536468, -0.526596527522, -0.999771177059, -0.511087082815,
        0.368369117767, 0.96782211398, 0.576976431785, -0.257133830139, -1.0525125412, -0.719944519288}},
      {"normuon",
       {{"row_beta2", 0.9}, {"update_scale", std::string("original")}},
       0.1,
       "model.layers.0.weight",
       {3, 6},
       true,
       0,
       {0.850686138665, 0.849466232552, 0.156033374532, -0.736258533319, -0.937988768681, -0.25850896991,
        0.649746241365, 0.958472553744, 0.383849264286, -0.503550202205, -0.996299150679, -0.494574035435,
        0.389716806669, 0.992071134423, 0.59071874952, -0.245333976067, -0.959690821966, -0.706894917244}},
      {"muon",
       {{"beta1", 0.8}, {"beta2", 0.95}, {"epsilon", 1e-6}, {"adamw_learning_rate", 0.02}},
       0.0,
       "model.layers.0.bias",
       {5},
       false,
       0.5,
       {0.868072283039, 0.884880796279, 0.161522813673, -0.771555753126, -0.950799982261}},
      {"normuon",
       {{"beta1", 0.8}, {"beta2", 0.95}, {"epsilon", 1e-6}, {"adamw_learning_rate", 0.02}},
       0.0,
       "model.layers.0.bias",
       {5},
       false,
       0.5,
       {0.868072283039, 0.884880796279, 0.161522813673, -0.771555753126, -0.950799982261}},
  };
  for (const SixSteps& one : all) {
    const std::vector<double> is = after_six_steps(one);
    ASSERT_EQ(is.size(), one.expected.size());
    for (size_t i = 0; i < is.size(); ++i)
      EXPECT_NEAR(is[i], one.expected[i], one.optimizer.ends_with("muon") ? 1e-5 : 1e-6)
          << one.optimizer << " of " << one.name << ", " << i;
  }
}

// Singular values of what is nearly orthogonal, by the products of its rows.
TEST(Muon, DirectionsAreNearlyOrthogonal) {
  for (const auto& [rows, columns] : {std::pair{8, 24}, {24, 8}, {16, 16}}) {
    const auto count = static_cast<size_t>(rows * columns);
    const Tensor m = Tensor::from_values(values_of(count, [](double i) { return 1e-3 * std::sin(i * i * 0.37 + i); }),
                                         {rows, columns});
    const Tensor o = orthogonalized(m, 5);
    const std::vector<double> products = (rows < columns ? matmul(o, transpose(o)) : matmul(transpose(o), o)).values();
    const int side = std::min(rows, columns);
    for (int i = 0; i < side; ++i) {
      double off = 0;
      for (int j = 0; j < side; ++j)
        if (j != i) off += std::abs(products[static_cast<size_t>(i * side + j)]);
      const double square = products[static_cast<size_t>(i * side + i)];
      // Of the squares of singular values, from 0.4 to 1.4.
      EXPECT_GT(square, 0.4) << rows << " x " << columns;
      EXPECT_LT(square, 1.4) << rows << " x " << columns;
      EXPECT_LT(off, 2.0) << rows << " x " << columns;
    }
    // Of a matrix of zeros it is zero.
    for (const double value : orthogonalized(zeros({rows, columns}), 5).values()) EXPECT_EQ(value, 0);
  }
}

TEST(Muon, IsOfHiddenMatricesAlone) {
  const auto parameter = [](const std::string& name, const Shape& shape) {
    return Parameter{name, zeros(shape), true};
  };
  EXPECT_TRUE(is_hidden_matrix(parameter("model.layers.11.mlp.up_proj.weight", {4, 2})));
  EXPECT_TRUE(is_hidden_matrix(parameter("transformer.h.0.attn.c_attn.weight", {4, 12})));
  EXPECT_FALSE(is_hidden_matrix(parameter("transformer.h.0.attn.c_attn.bias", {12})));
  EXPECT_FALSE(is_hidden_matrix(parameter("model.embed_tokens.weight", {8, 2})));
  EXPECT_FALSE(is_hidden_matrix(parameter("lm_head.weight", {8, 2})));
  EXPECT_FALSE(is_hidden_matrix(parameter("transformer.wpe.weight", {8, 2})));
  OptimizerConfig config;
  config.name = "muon";
  config = config.resolved();
  const Optimizer& muon = find_optimizer("muon");
  EXPECT_EQ(muon.state_bytes(parameter("model.layers.0.weight", {4, 2}), config), 4 * 8);
  EXPECT_EQ(muon.state_bytes(parameter("lm_head.weight", {4, 2}), config), 2 * 4 * 8);
  config.name = "normuon";
  EXPECT_EQ(find_optimizer("normuon").state_bytes(parameter("model.layers.0.weight", {4, 2}), config), 4 * 8 + 4 * 4);
}

TEST(ParameterGroups, AreFoundByPatterns) {
  EXPECT_TRUE(matches("*.bias", "transformer.h.0.ln_1.bias"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("a*b?d*", "aXbbcd"));
  EXPECT_FALSE(matches("*.bias", "transformer.bias.weight"));
  EXPECT_FALSE(matches("?", ""));
  EXPECT_FALSE(matches("model", "model.norm"));
  const std::vector<ParameterGroup> groups = {{.pattern = "*.norm.*", .rate_factor = 0.5},
                                              {.pattern = "model.*", .weight_decay = 0.25}};
  EXPECT_EQ(group_of(groups, "model.norm.weight"), &groups[0]);
  EXPECT_EQ(group_of(groups, "model.up.weight"), &groups[1]);
  EXPECT_EQ(group_of(groups, "head"), nullptr);
  OptimizerConfig config;
  config.groups = groups;
  EXPECT_EQ(config.rate_factor("model.norm.weight"), 0.5);
  EXPECT_EQ(config.decay_of("model.norm.weight", false), 0);
  EXPECT_EQ(config.decay_of("model.norm.weight", true), 0.1);
  EXPECT_EQ(config.decay_of("model.up.bias", false), 0.25);
  config.groups = {{.pattern = "head", .learning_rate = 6e-4}};
  EXPECT_DOUBLE_EQ(config.rate_factor("head"), 2);
  const std::vector<std::string> names = {"model.layers.0.up.weight", "model.norm.weight", "head"};
  const auto problem = [&](const std::vector<ParameterGroup>& of) -> std::string {
    try {
      require_members(of, names);
    } catch (const Error& error) {
      return error.message() + " | " + error.hint();
    }
    return "none";
  };
  EXPECT_EQ(problem(groups), "none");
  EXPECT_EQ(problem({{.pattern = "model.nrm.*"}}),
            "'model.nrm.*' matches no parameter of the model | The nearest names are model.norm.weight, "
            "model.layers.0.up.weight, head; * stands for any characters.");
  EXPECT_EQ(problem({{.pattern = "model.*"}, {.pattern = "*.norm.*"}}),
            "all that '*.norm.*' matches is in groups before it (model.norm.weight in that of 'model.*') | A parameter "
            "is in the first group that matches it: put the narrower one first.");
}

}  // namespace
}  // namespace causeway::optimizer
