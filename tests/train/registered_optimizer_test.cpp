// An optimizer is one description: this one is known to this test alone, and recipes, messages, training steps and
// their memory know it while it is registered.
#include <gtest/gtest.h>

#include <cmath>

#include "causeway/base/error.h"
#include "causeway/optimizer/optimizer.h"
#include "causeway/tensor/ops.h"
#include "causeway/train/recipe/recipe.h"
#include "causeway/train/step/training_step.h"

namespace causeway::train {
namespace {

// The sign of a running sum, which is kept in bf16 and of matrices alone; of the others the gradient's sign.
Optimizer signs() {
  Optimizer optimizer;
  optimizer.name = "signs";
  optimizer.keys = {OptimizerKey::below_one("memory", 0.5, "of the running sum"),
                    {"every", int64_t{1}, "a whole number",
                     [](const OptimizerValue& value) -> std::string {
                       return std::get<int64_t>(value) >= 1 ? "" : "must be at least 1";
                     }},
                    {"upwards", false, "a truth", {}}};
  optimizer.state = [](const OptimizerConfig&) {
    return std::vector<OptimizerState>{
        {"sum", DType::kBF16, [](const Parameter& parameter) { return parameter.tensor.shape().size() > 1; }}};
  };
  optimizer.update = [](const ParameterUpdate& of, const OptimizerConfig& config) {
    Tensor direction = of.gradient;
    std::vector<Tensor> state;
    if (!of.state.empty()) {
      direction = direction + config.own_number("memory") * cast(of.state[0], DType::kF32);
      state.push_back(cast(direction, DType::kBF16));
    }
    const Tensor sign = where(gt(direction, 0.0), ones_like(direction), -ones_like(direction));
    return UpdatedParameter{of.value() - sign * of.learning_rate, state};
  };
  return optimizer;
}

constexpr char kSignsRecipe[] = R"(name: small
model: {family: gpt2, vocabulary_size: 16, layers: 2, width: 8, heads: 2, max_sequence_length: 8}
data: {path: data, sequence_length: 8}
optimizer: {name: signs, memory: 0.25}
train: {batch_size: 2, precision: f32}
)";

std::string error_of_optimizer(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  try {
    parse_recipe(yaml, "file.yaml", overrides);
  } catch (const Error& error) {
    return error.where() + ": " + error.message() + " | " + error.hint();
  }
  return "no error";
}

TEST(RegisteredOptimizer, IsKnownToRecipesWhileItIsRegistered) {
  const auto keys = [] {
    std::vector<std::string> names;
    for (const RecipeKey& key : recipe_keys()) names.push_back(key.key);
    return names;
  };
  const std::vector<std::string> before = keys();
  {
    const RegisteredOptimizer registered(signs());
    const Recipe recipe = parse_recipe(kSignsRecipe, "file.yaml", {"optimizer.every=3", "optimizer.upwards=true"});
    EXPECT_EQ(recipe.optimizer.name, "signs");
    EXPECT_EQ(recipe.optimizer.own_number("memory"), 0.25);
    EXPECT_EQ(recipe.optimizer.own_integer("every"), 3);
    EXPECT_TRUE(recipe.optimizer.own_truth("upwards"));
    EXPECT_EQ(parse_recipe(recipe_text(recipe), "file.yaml", {}).optimizer, recipe.optimizer);
    EXPECT_EQ(parse_saved_recipe(recipe_text(recipe), "saved").optimizer, recipe.optimizer);
    EXPECT_EQ(keys().size(), before.size() + 3);
    for (const RecipeKey& key : recipe_keys()) {
      if (key.key == "optimizer.name") EXPECT_EQ(key.choices.back(), "signs");
      if (key.key == "optimizer.memory") EXPECT_EQ(key.meaning, "of the running sum (signs)");
    }
    EXPECT_EQ(error_of_optimizer(kSignsRecipe, {"optimizer.every=0"}),
              "command line: optimizer.every: must be at least 1 | ");
    EXPECT_EQ(error_of_optimizer(kSignsRecipe, {"optimizer.beta1=0.5"}),
              "command line: optimizer.beta1: has no effect on signs: it belongs to adamw, muon, normuon and lion | "
              "Delete the key, or choose what it belongs to with optimizer.name.");
    EXPECT_EQ(error_of_optimizer("optimizer: {memory: 0.75}"),
              "file.yaml: optimizer.memory: has no effect on adamw: it belongs to signs | Delete the key, or choose "
              "what it belongs to with optimizer.name.");
    EXPECT_EQ(error_of_optimizer("optimizer: {name: sings}"),
              "file.yaml: optimizer.name: unknown optimizer 'sings' | Did you mean signs?");
  }
  EXPECT_EQ(keys(), before);
  EXPECT_NE(error_of_optimizer("optimizer: {name: signs}").find("unknown optimizer 'signs' | There"),
            std::string::npos);
  EXPECT_EQ(error_of_optimizer("optimizer: {memory: 0.75}"),
            "file.yaml: optimizer.memory: unknown key | `causeway recipe keys` lists all keys.");
}

TEST(RegisteredOptimizer, UpdatesAsItsDescriptionSays) {
  const RegisteredOptimizer registered(signs());
  const Recipe recipe = parse_recipe(kSignsRecipe, "file.yaml", {});
  const auto model = LanguageModel::create(recipe.model, 1);
  TrainingStep step(*model, recipe);
  int64_t matrices = 0, elements = 0, kept = 0;
  for (const Parameter& parameter : model->parameters()) {
    const int64_t count = parameter.tensor.local_bytes() / 4;
    if (parameter.tensor.shape().size() > 1) {
      ++kept;
      matrices += count;
    }
    elements += count;
  }
  ASSERT_EQ(static_cast<int64_t>(step.optimizer_state().size()), kept);
  EXPECT_EQ(step.optimizer_state().front().name, "sum." + model->parameters().front().name);
  EXPECT_EQ(step.state_bytes(), 2 * matrices);
  EXPECT_EQ(step.cost().optimizer_bytes, 2 * matrices);
  EXPECT_EQ(find_optimizer("signs").least_state_bytes(elements, recipe.optimizer), 0);
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 16; ++i) tokens.push_back(i);
  TrainingBatch batch;
  batch.inputs = tokens;
  batch.targets = tokens;
  batch.valid_targets = 16;
  const double first = step.run(batch, 0, 0.0).loss;
  std::vector<std::vector<double>> weights, sums;
  for (const Parameter& parameter : model->parameters()) weights.push_back(parameter.tensor.values());
  for (const TrainingStep::StateTensor& state : step.optimizer_state()) sums.push_back(state.tensor.values());
  // The same gradients again, of weights that did not change.
  step.run(batch, 1, 1.0 / 64);
  for (size_t i = 0; i < weights.size(); ++i) {
    const std::vector<double> now = model->parameters()[i].tensor.values();
    for (size_t j = 0; j < now.size(); ++j) ASSERT_NEAR(std::abs(now[j] - weights[i][j]), 1.0 / 64, 1e-6) << i;
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    const TrainingStep::StateTensor& state = step.optimizer_state()[i];
    const std::vector<double> now = state.tensor.values();
    const std::vector<double> before = weights[state.parameter],
                              after = model->parameters()[state.parameter].tensor.values();
    for (size_t j = 0; j < now.size(); ++j) {
      ASSERT_NEAR(now[j], 1.25 * sums[i][j], 0.01 * std::abs(sums[i][j])) << state.name;
      ASSERT_EQ(after[j] < before[j], now[j] > 0) << state.name;
    }
  }
  double last = first;
  for (int64_t i = 2; i < 40; ++i) last = step.run(batch, i, 1.0 / 64).loss;
  EXPECT_LT(last, first);
}

}  // namespace
}  // namespace causeway::train
