// What a recipe says of parameters by their names, and of gradients and decay: in messages, in a step, and in its
// memory.
#include "causeway/train/recipe/parameter_groups.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "causeway/base/error.h"
#include "causeway/optimizer/optimizer.h"
#include "causeway/train/recipe/recipe.h"
#include "causeway/train/step/training_step.h"

namespace causeway::train {
namespace {

constexpr char kLlama[] = R"(name: groups
model: {family: llama, vocabulary_size: 32, layers: 2, width: 16, heads: 2, ffn_width: 32, max_sequence_length: 8}
data: {path: data, sequence_length: 8}
train: {batch_size: 4, precision: f32}
optimizer: {learning_rate: 0.01}
)";

std::string error_of_groups(const std::string& groups) {
  try {
    parse_recipe(kLlama, "file.yaml", {"optimizer.groups=" + groups});
  } catch (const Error& error) {
    return error.message() + " | " + error.hint();
  }
  return "no error";
}

using Values = std::map<std::string, std::vector<double>>;

// The parameters before and after some steps.
struct Trained {
  Values before, after;
  StepCost cost;
  int64_t peak = 0;
};

Trained train_some(const std::vector<std::string>& overrides, int64_t steps = 1, const std::string& device = "cpu") {
  const Recipe recipe = parse_recipe(kLlama, "file.yaml", overrides);
  const ContextScope scope(Context::open(device));
  const auto model = LanguageModel::create(recipe.model, ModelPart(recipe.model.layers), new_weights(recipe, 3));
  const auto values = [&] {
    Values all;
    for (const Parameter& parameter : model->parameters()) all[parameter.name] = parameter.tensor.values();
    return all;
  };
  TrainingStep step(*model, recipe);
  Trained trained;
  if (device == "cpu") trained.before = values();
  trained.cost = step.cost();
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 4 * 8; ++i) tokens.push_back(i * i % 31);
  const int64_t rows = recipe.train.batch_size;
  for (int64_t i = 0; i < steps; ++i)
    EXPECT_TRUE(step.run({tokens, tokens, {}, rows * 8}, i, recipe.optimizer.learning_rate).finite);
  trained.peak = Context::current()->device().peak_bytes();
  if (device == "cpu") trained.after = values();
  return trained;
}

TEST(ParameterGroups, AreReadFromRecipes) {
  const std::string given =
      R"([{pattern: "*.norm.*", weight_decay: 0}, {pattern: "lm_head.*", learning_rate: 0.001}, )"
      R"({pattern: "model.embed*", frozen: true}, {pattern: "*mlp*", learning_rate_factor: 0.5, weight_decay: 0.2}])";
  const Recipe recipe = parse_recipe(kLlama, "file.yaml", {"optimizer.groups=" + given});
  ASSERT_EQ(recipe.optimizer.groups.size(), 4u);
  EXPECT_EQ(recipe.optimizer.groups[3].rate_factor, 0.5);
  EXPECT_EQ(recipe.optimizer.groups[1].learning_rate, 0.001);
  EXPECT_TRUE(recipe.optimizer.groups[2].frozen);
  EXPECT_EQ(parse_recipe(recipe_text(recipe), "again.yaml", {}).optimizer, recipe.optimizer);
  const std::string in_file =
      std::string(kLlama).replace(std::string(kLlama).find("0.01}"), 5, "0.01, groups: " + given + "}");
  EXPECT_EQ(parse_recipe(in_file, "file.yaml", {}).optimizer, recipe.optimizer);
  EXPECT_EQ(error_of_groups("{pattern: a}"), "'{pattern: a}' is not a list of groups | ");
  EXPECT_EQ(error_of_groups("[{weight_decay: 1}]"), "group 1 has no pattern | For example '*.bias'.");
  EXPECT_EQ(error_of_groups("[{pattern: a}]"),
            "group 1 ('a') says nothing of its parameters | It may have learning_rate, learning_rate_factor, "
            "weight_decay or frozen.");
  EXPECT_EQ(error_of_groups("[{pattern: a, weigth_decay: 1}]"),
            "group 1 has the unknown key 'weigth_decay' | Did you mean weight_decay?");
  EXPECT_EQ(error_of_groups("[{pattern: a, weight_decay: -1}]"),
            "the weight_decay of group 1 is '-1', not a number from 0 on | ");
  EXPECT_EQ(error_of_groups("[{pattern: a, frozen: yes}]"), "frozen of group 1 is 'yes', not true or false | ");
  EXPECT_EQ(error_of_groups("[{pattern: a, frozen: true, weight_decay: 1}]"),
            "group 1 ('a') is frozen: a rate or a decay has no effect on it | Delete one of them.");
  EXPECT_EQ(error_of_groups("[{pattern: a, learning_rate: 1, learning_rate_factor: 1}]"),
            "group 1 ('a') has both learning_rate and learning_rate_factor | Delete one of them.");
  EXPECT_EQ(error_of_groups("[{pattern: a, frozen: true}, {pattern: a, frozen: true}]"),
            "groups 1 and 2 are both of 'a' | Say it once.");
}

TEST(ParameterGroups, APatternThatMatchesNothingNamesTheNearest) {
  try {
    train_some({"optimizer.groups=[{pattern: model.layers.*.mlp.up_porj.weight, frozen: true}]"});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.where(), "command line: optimizer.groups");
    EXPECT_EQ(error.message(), "'model.layers.*.mlp.up_porj.weight' matches no parameter of the model");
    EXPECT_NE(error.hint().find("The nearest names are model.layers.0.mlp.up_proj.weight, "), std::string::npos)
        << error.hint();
  }
}

TEST(ParameterGroups, HaveTheirRatesAndDecays) {
  const Trained plain = train_some({});
  const Trained grouped = train_some(
      {R"(optimizer.groups=[{pattern: "*.mlp.*", learning_rate: 0.005}, {pattern: "*norm*", weight_decay: 0.5}, )"
       R"({pattern: "*.q_proj.*", learning_rate_factor: 0}])"});
  for (const auto& [name, before] : grouped.before) {
    const std::vector<double>&after = grouped.after.at(name), &usual = plain.after.at(name);
    for (size_t i = 0; i < before.size(); ++i) {
      const double moved = usual[i] - before[i];
      double expected = usual[i];
      if (name.find(".mlp.") != std::string::npos) expected = before[i] + 0.5 * moved;
      if (name.find("norm") != std::string::npos) expected -= 0.01 * 0.5 * before[i];
      if (name.find(".q_proj.") != std::string::npos) expected = before[i];
      ASSERT_NEAR(after[i], expected, 2e-7) << name;
    }
  }
}

// A group's rate is that rate, also where the optimizer has another one for such parameters.
TEST(ParameterGroups, ARateIsNotMultipliedByTheOptimizers) {
  const std::vector<std::string> muon = {"optimizer.name=muon", "optimizer.weight_decay=0"};
  const auto moved = [&](const std::string& rate, const std::string& groups) {
    std::vector<std::string> overrides = muon;
    overrides.push_back("optimizer.adamw_learning_rate=" + rate);
    overrides.push_back("optimizer.groups=" + groups);
    const Trained trained = train_some(overrides);
    return trained.before.at("model.norm.weight").front() - trained.after.at("model.norm.weight").front();
  };
  const std::string own = "[{pattern: '*norm*', learning_rate: 0.002}]";
  EXPECT_NEAR(std::abs(moved("0.001", own)), 0.002, 1e-5);
  EXPECT_NEAR(std::abs(moved("0.001", "[{pattern: '*norm*', learning_rate_factor: 3}]")), 0.003, 1e-5);
}

TEST(ParameterGroups, HaveMembersThatAreTrained) {
  EXPECT_EQ(error_of_groups("[{pattern: '*', frozen: true}]"),
            "all parameters are frozen, and none is left to train | Freeze fewer, by a narrower pattern.");
  const auto with_adapters = [](const std::string& pattern) -> std::string {
    try {
      parse_recipe(kLlama, "file.yaml",
                   {"lora.rank=2", "optimizer.groups=[{pattern: '" + pattern + "', weight_decay: 0}]"});
    } catch (const Error& error) {
      return error.message();
    }
    return "no error";
  };
  EXPECT_EQ(with_adapters("*embed_tokens*"), "'*embed_tokens*' matches no parameter of an adapter");
  EXPECT_EQ(with_adapters("*lora_A*"), "no error");
}

TEST(ParameterGroups, TellLayersApartByTheSameParameter) {
  const auto apart = [](const std::string& pattern) {
    return groups_tell_layers_apart(
        parse_recipe(kLlama, "file.yaml", {"optimizer.groups=[{pattern: '" + pattern + "', weight_decay: 0}]"}));
  };
  EXPECT_TRUE(apart("model.layers.1.*"));
  EXPECT_FALSE(apart("*.mlp.*"));
  EXPECT_FALSE(apart("model.embed*"));
}

// No gradient, nothing kept, no sum of micro-batches: and what the step takes is known to the byte.
TEST(ParameterGroups, FrozenOnesAreLeftAlone) {
  const std::vector<std::string> frozen = {"optimizer.groups=[{pattern: '*.mlp.*', frozen: true}]"};
  const Trained plain = train_some({}), trained = train_some(frozen, 3);
  int64_t elements = 0;
  for (const auto& [name, before] : trained.before) {
    const bool is_frozen = name.find(".mlp.") != std::string::npos;
    EXPECT_EQ(trained.after.at(name) == before, is_frozen) << name;
    if (is_frozen) elements += static_cast<int64_t>(before.size());
  }
  EXPECT_EQ(elements, 2 * 3 * 16 * 32);
  EXPECT_EQ(plain.cost.optimizer_bytes - trained.cost.optimizer_bytes, 2 * 4 * elements);
  EXPECT_EQ(plain.cost.parameter_bytes, trained.cost.parameter_bytes);
  EXPECT_LT(trained.cost.flops.backward, plain.cost.flops.backward);
  for (const std::string name : {"cpu", "emulator:sm_90a"})
    for (const std::string rows : {"4", "2"}) {
      std::vector<std::string> overrides = frozen;
      overrides.push_back("train.micro_batch_size=" + rows);
      const Trained one = train_some(overrides, 1, name);
      EXPECT_EQ(one.peak, one.cost.total_bytes()) << name << ", " << rows;
      if (rows == "2")
        EXPECT_EQ(one.cost.optimizer_bytes - trained.cost.optimizer_bytes, one.cost.parameter_bytes - 4 * elements);
    }
}

TEST(GradientClip, ByValueBoundsEachElement) {
  EXPECT_THROW(parse_recipe(kLlama, "file.yaml", {"optimizer.gradient_clip=0", "optimizer.gradient_clip_by=value"}),
               Error);
  const std::vector<std::string> sgd = {"optimizer.name=sgd", "optimizer.weight_decay=0"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), sgd.begin(), sgd.end());
    return train_some(more);
  };
  const Trained free = with({"optimizer.gradient_clip=0"});
  const Trained by_value = with({"optimizer.gradient_clip=1e-3", "optimizer.gradient_clip_by=value"});
  const Trained by_norm = with({"optimizer.gradient_clip=1e-3"});
  size_t cut = 0, uncut = 0;
  double squares = 0;
  for (const auto& [name, before] : free.before)
    for (size_t i = 0; i < before.size(); ++i) {
      const double gradient = (before[i] - free.after.at(name)[i]) / 0.01;
      const double taken = (before[i] - by_value.after.at(name)[i]) / 0.01;
      EXPECT_NEAR(taken, std::clamp(gradient, -1e-3, 1e-3), 3e-5) << name;
      (std::abs(gradient) > 1.1e-3 ? cut : uncut) += 1;
      squares += std::pow((before[i] - by_norm.after.at(name)[i]) / 0.01, 2);
    }
  EXPECT_GT(cut, 100u);
  EXPECT_GT(uncut, 100u);
  EXPECT_NEAR(std::sqrt(squares), 1e-3, 1e-4);
}

// Where the step shrinks an element, its decay is as usual, and elsewhere there is none.
TEST(CautiousDecay, IsWhereTheStepShrinks) {
  const Trained none = train_some({"optimizer.weight_decay=0"});
  const Trained cautious = train_some({"optimizer.weight_decay=0.5", "optimizer.cautious_decay=true"});
  size_t with = 0, without = 0;
  for (const auto& [name, before] : none.before) {
    const bool is_norm = name.find("norm") != std::string::npos;
    for (size_t i = 0; i < before.size(); ++i) {
      const double step = before[i] - none.after.at(name)[i];
      const bool shrinks = !is_norm && step * before[i] >= 0;
      ASSERT_NEAR(cautious.after.at(name)[i], none.after.at(name)[i] - (shrinks ? 0.01 * 0.5 * before[i] : 0), 1e-7)
          << name;
      (shrinks ? with : without) += 1;
    }
  }
  EXPECT_GT(with, 100u);
  EXPECT_GT(without, 100u);
  EXPECT_THROW(parse_recipe(kLlama, "file.yaml", {"optimizer.name=sgd", "optimizer.cautious_decay=true"}), Error);
}

}  // namespace
}  // namespace causeway::train
