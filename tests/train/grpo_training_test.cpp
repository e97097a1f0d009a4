// The loss of completions: TRL's losses, gradients and figures on given completions, and what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <nlohmann/json.hpp>

#include "causeway/base/file.h"
#include "causeway/model/hugging_face.h"
#include "causeway/train/grpo/advantages.h"
#include "causeway/train/grpo/rollout.h"
#include "causeway/train/grpo/rollout_pass.h"
#include "causeway/train/step/training_step.h"
#include "tests/fixtures/data_test_support.h"
#include "tests/train/training_ranks.h"

namespace causeway::train {
namespace {

std::string model_of_completions() {
  return (std::filesystem::path(CAUSEWAY_SOURCE_DIR) / "tests/fixtures/chat").string();
}

nlohmann::json expected_of_completions() {
  return nlohmann::json::parse(
      read_text_file(std::filesystem::path(CAUSEWAY_SOURCE_DIR) / "tests/fixtures/grpo/expected.json"));
}

// Of a case of the fixture.
Recipe recipe_of_case(const nlohmann::json& config, std::vector<std::string> overrides = {}) {
  const std::string text = fmt::format(
      R"(name: grpo
model: {{from: "{}"}}
data: {{path: prompts, sequence_length: 20}}
grpo: {{reward: exact_match, num_generations: 3, max_completion_length: 9, loss_type: {}, num_iterations: {}, beta: {},
        epsilon: {}, epsilon_high: {}, temperature: {}, scale_rewards: {}, mask_truncated_completions: {}}}
optimizer: {{learning_rate: {}, weight_decay: 0.1, gradient_clip: 1, beta1: 0.9, beta2: 0.95, epsilon: 1e-8}}
schedule: {{kind: constant, warmup_steps: 0}}
train: {{batch_size: 6, steps: 20, precision: f32}}
)",
      model_of_completions(), config["loss_type"].get<std::string>(), config["iterations"].get<int64_t>(),
      config["beta"].get<double>(), config["epsilon"].get<double>(), config["epsilon_high"].get<double>(),
      config["temperature"].get<double>(), config["scale"].get<std::string>(), config["mask_truncated"].get<bool>(),
      config["rate"].get<double>());
  return parse_recipe(text, "recipe", overrides);
}

std::vector<Rollout> rollouts_of_fixture(const nlohmann::json& expected, RewardScale scale) {
  std::vector<Rollout> rollouts;
  for (const nlohmann::json& rows : expected["rollouts"]) {
    Rollout& rollout = rollouts.emplace_back();
    std::vector<double> rewards;
    for (const nlohmann::json& row : rows) {
      rewards.push_back(row["reward"].get<double>());
      Completion one;
      row["prompt"].get_to(one.prompt);
      row["tokens"].get_to(one.tokens);
      row["truncated"].get_to(one.is_truncated);
      one.sampled.assign(one.tokens.size(), 0);
      rollout.completions.push_back(std::move(one));
    }
    const Advantages advantages = compute_advantages(rewards, expected["group"].get<size_t>(), scale);
    for (size_t i = 0; i < rewards.size(); ++i) rollout.completions[i].advantage = advantages.values[i];
  }
  return rollouts;
}

// As many steps on each rollout as the recipe says. `change`: between a rollout's pass and its steps.
std::vector<StepFigures> train_on_completions(const Recipe& recipe,
                                              const std::function<void(Completion&)>& change = {}) {
  const auto load = [&](bool is_trained) {
    NewWeights weights = new_weights(recipe);
    if (!is_trained) weights.is_trained = [](const std::string&) { return false; };
    auto model = LanguageModel::create(recipe.model, own_part(recipe), weights);
    load_parameters(*model, SafetensorsModel(recipe.model_from));
    return model;
  };
  const auto model = load(true), reference = load(false);
  TrainingStep step(*model, recipe);
  RolloutPass pass(*model, reference.get(), recipe);
  std::vector<StepFigures> figures;
  for (Rollout& rollout : rollouts_of_fixture(expected_of_completions(), recipe.grpo.scale_rewards)) {
    pass.run(rollout.completions, true);
    for (Completion& one : rollout.completions) {
      one.sampled = one.older;
      if (change) change(one);
    }
    for (int64_t i = 0; i < recipe.grpo.num_iterations; ++i) {
      const RolloutBatch batch = batch_of_rollout(rollout, recipe, step.own_rows());
      TrainingBatch host{batch.batch.inputs, batch.batch.targets, {}, batch.batch.global_valid_targets};
      host.numbers = {batch.numbers.begin(), batch.numbers.end()};
      figures.push_back(step.run(host, static_cast<int64_t>(figures.size()), recipe.optimizer.learning_rate));
    }
  }
  return figures;
}

double largest_difference_of_norms(const std::vector<StepFigures>& figures, const nlohmann::json& norms) {
  double largest = 0;
  for (size_t i = 0; i < figures.size(); ++i)
    largest = std::max(largest, std::abs(figures[i].grad_norm / norms[i].get<double>() - 1));
  return largest;
}

TEST(GrpoTraining, HasTheAdvantagesOfTrl) {
  const nlohmann::json expected = expected_of_completions();
  for (const auto& [name, of_case] : expected["cases"].items()) {
    const auto scale = value_named<RewardScale>(of_case["config"]["scale"].get<std::string>());
    const std::vector<Rollout> rollouts = rollouts_of_fixture(expected, *scale);
    for (size_t i = 0; i < rollouts.size(); ++i)
      for (size_t row = 0; row < rollouts[i].completions.size(); ++row)
        EXPECT_NEAR(rollouts[i].completions[row].advantage, of_case["advantages"][i][row].get<double>(), 2e-5)
            << name << " " << i << " " << row;
  }
}

TEST(GrpoTraining, FollowsTrlsLossesAndFiguresHoweverTheBatchIsCut) {
  const nlohmann::json cases = expected_of_completions()["cases"];
  for (const auto& [name, of_case] : cases.items()) {
    for (const char* micro_batch : {"6", "2"}) {  // groups need not stand in one micro-batch
      const Recipe recipe = recipe_of_case(of_case["config"], {fmt::format("train.micro_batch_size={}", micro_batch)});
      const std::vector<StepFigures> figures = train_on_completions(recipe);
      ASSERT_EQ(figures.size(), of_case["losses"].size()) << name;
      const auto expect_near = [&](size_t step, double actual, const char* what, double bound) {
        EXPECT_NEAR(actual, of_case[what][step].get<double>(), bound) << name << " " << what << " at step " << step;
      };
      for (size_t i = 0; i < figures.size(); ++i) {
        expect_near(i, figures[i].loss, "losses", 1e-4);
        const double norm = of_case["grad_norms"][i].get<double>();
        EXPECT_NEAR(figures[i].grad_norm, norm, 2e-3 * norm + 1e-5) << name << " step " << i;
        expect_near(i, figures[i].figures[1], "clip_ratio_low", 1e-6);
        expect_near(i, figures[i].figures[2], "clip_ratio_high", 1e-6);
        EXPECT_NEAR(figures[i].figures[0], figures[i].figures[1] + figures[i].figures[2], 1e-6);
        EXPECT_LT(figures[i].figures[3], 1e-5) << name << " step " << i;  // sampled by the same weights
        if (recipe.grpo.has_reference()) expect_near(i, figures[i].figures[4], "kl", 2e-4);
      }
    }
  }
}

// What the comparison would not let pass.
TEST(GrpoTraining, MistakesAreFarFromTrls) {
  const nlohmann::json of_case = expected_of_completions()["cases"]["dapo"];
  const nlohmann::json& norms = of_case["grad_norms"];
  const auto difference = [&](std::vector<std::string> overrides, const std::function<void(Completion&)>& change = {}) {
    return largest_difference_of_norms(train_on_completions(recipe_of_case(of_case["config"], overrides), change),
                                       norms);
  };
  EXPECT_LT(difference({}), 2e-3);
  EXPECT_GT(difference({"grpo.temperature=1"}), 0.05);
  EXPECT_GT(difference({"grpo.epsilon_high=0"}), 0.05);
  EXPECT_GT(difference({"grpo.loss_type=grpo"}), 0.05);
  EXPECT_GT(difference({"grpo.scale_rewards=group"}), 0.05);
  // The policy before the steps is another.
  EXPECT_GT(difference({}, [](Completion& one) { std::ranges::fill(one.older, -1.0f); }), 0.05);
  // log p of one token stands at the next.
  EXPECT_GT(difference({}, [](Completion& one) { std::ranges::rotate(one.older, one.older.end() - 1); }), 0.05);
  EXPECT_GT(difference({}, [](Completion& one) { std::ranges::fill(one.reference, -1.0f); }), 0.05);
}

TEST(GrpoTraining, IsTheSameOnMeshes) {
  const nlohmann::json of_case = expected_of_completions()["cases"]["dapo"];
  const std::vector<StepFigures> one = train_on_completions(recipe_of_case(of_case["config"]));
  for (const std::vector<std::string>& mesh :
       std::vector<std::vector<std::string>>{{"mesh.dp=2"}, {"mesh.fsdp=2", "train.micro_batch_size=2"}}) {
    const Recipe cut = recipe_of_case(of_case["config"], mesh);
    std::mutex mutex;
    on_ranks(cut.mesh, [&] {
      const std::vector<StepFigures> figures = train_on_completions(cut);
      const std::lock_guard lock(mutex);
      for (size_t i = 0; i < one.size(); ++i) {
        EXPECT_NEAR(figures[i].loss, one[i].loss, 1e-4) << mesh[0] << " step " << i;
        EXPECT_NEAR(figures[i].grad_norm, one[i].grad_norm, 2e-3 * one[i].grad_norm) << mesh[0] << " step " << i;
      }
    });
  }
}

TEST(GrpoTraining, RowsAreCutAsBatchesAre) {
  Recipe recipe = recipe_of_case(expected_of_completions()["cases"]["dr_grpo"]["config"], {"train.micro_batch_size=2"});
  Rollout rollout;
  for (int32_t row = 0; row < 6; ++row) {
    Completion one{.prompt = {10 + row, 20 + row}, .tokens = {30 + row, 2}};
    one.advantage = static_cast<float>(row);
    one.sampled = {-1.0f - static_cast<float>(row), -0.5f};
    one.older = one.reference = one.sampled;
    one.is_truncated = row == 5;
    rollout.completions.push_back(one);
  }
  const RolloutBatch whole = batch_of_rollout(rollout, recipe, {0, 2}),
                     second = batch_of_rollout(rollout, recipe, {1, 1});
  EXPECT_EQ(whole.batch.global_valid_targets, 10);  // the truncated one is not trained on
  EXPECT_EQ(second.batch.global_valid_targets, 10);
  EXPECT_EQ(second.batch.valid_targets, 4);
  EXPECT_EQ(whole.batch.global_tokens, 18);
  EXPECT_EQ(second.numbers[0], (std::vector<float>{1, 3, 5}));
  EXPECT_EQ((std::vector<int32_t>(second.batch.inputs.begin(), second.batch.inputs.begin() + 4)),
            (std::vector<int32_t>{11, 21, 31, 0}));
  EXPECT_EQ((std::vector<int32_t>(second.batch.targets.begin(), second.batch.targets.begin() + 4)),
            (std::vector<int32_t>{-1, 31, 2, -1}));
  EXPECT_EQ((std::vector<float>(second.numbers[1].begin(), second.numbers[1].begin() + 4)),
            (std::vector<float>{0, -2, -0.5, 0}));
  EXPECT_EQ(whole.numbers.size(), 4u);
}

TEST(GrpoTraining, StatesOfSamplingAreReadToTheBit) {
  auto rollout = std::make_shared<Rollout>();
  rollout->first_sample = 48;
  Completion one{.prompt = {3, 4}, .tokens = {5, 2}};
  one.sampled = {-0.1f, -1e-20f};
  one.older = {std::nextafter(-0.1f, 0.0f), -7.25f};
  one.reward = 1.0 / 3;
  one.advantage = 0.3f;
  rollout->completions = {one};
  rollout->figures = {{"reward", 0.1}, {"entropy", 1e-300}};
  const RolloutState state{{2, 7}, rollout, 1};
  const RolloutState read = parse_rollout_state(print_rollout_state(state), "grpo.json");
  EXPECT_EQ(read.end_tokens, state.end_tokens);
  EXPECT_EQ(read.steps, 1);
  ASSERT_TRUE(read.rollout != nullptr);
  EXPECT_EQ(read.rollout->first_sample, 48u);
  EXPECT_EQ(read.rollout->figures, rollout->figures);
  const Completion& again = read.rollout->completions.front();
  EXPECT_EQ(again.tokens, one.tokens);
  EXPECT_EQ(again.sampled, one.sampled);
  EXPECT_EQ(again.older, one.older);
  EXPECT_EQ(again.reward, one.reward);
  EXPECT_EQ(again.advantage, one.advantage);
  EXPECT_TRUE(parse_rollout_state(print_rollout_state({{2}, nullptr, 0}), "x").rollout == nullptr);
  for (const char* bad :
       {"", "[]", "{\"end_tokens\": 3}", "{\"end_tokens\": [3], \"steps\": 1, \"completions\": [{}]}"})
    EXPECT_EQ(caught([&] { parse_rollout_state(bad, "grpo.json"); }).kind(), ErrorKind::kCorrupt) << bad;
}

TEST(GrpoTraining, WhatDoesNotFitIsRefusedByName) {
  const nlohmann::json config = expected_of_completions()["cases"]["grpo"]["config"];
  const auto refusal = [&](std::vector<std::string> overrides) {
    const Error error = caught([&] { recipe_of_case(config, std::move(overrides)); });
    return fmt::format("{}: {}", error.where(), error.message());
  };
  EXPECT_EQ(refusal({"train.batch_size=7"}),
            "command line: train.batch_size: 7 completions are not whole groups of grpo.num_generations=3");
  EXPECT_TRUE(contains(refusal({"grpo.num_generations=1"}), "has no group to be compared with"));
  EXPECT_TRUE(contains(refusal({"grpo.max_completion_length=30"}), "do not fit data.sequence_length, 20"));
  EXPECT_TRUE(contains(refusal({"grpo.temperature=0"}), "must be above 0"));
  EXPECT_TRUE(contains(refusal({"grpo.top_p=0"}), "must be above 0 and at most 1"));
  EXPECT_TRUE(contains(refusal({"grpo.epsilon=1"}), "must be above 0 and below 1"));
  EXPECT_TRUE(contains(refusal({"grpo.loss_type=bnpo"}), "bnpo averages over the tokens of each micro-batch"));
  EXPECT_TRUE(contains(refusal({"grpo.loss_type=cispo"}), "the loss cispo is not implemented"));
  EXPECT_TRUE(contains(refusal({"grpo.loss_type=grop"}), "is not one of grpo, dr_grpo, dapo"));
  EXPECT_EQ(refusal({"mesh.pp=2"}), "command line: mesh.pp: grpo.reward=exact_match is not yet trained over stages");
  EXPECT_TRUE(contains(refusal({"mesh.cp=2"}), "not yet trained with cut sequences"));
  EXPECT_TRUE(contains(refusal({"data.packing=documents"}), "has each completion in a row of its own"));
  EXPECT_TRUE(contains(refusal({"model.dropout=0.1"}), "of which nothing may be dropped"));
  EXPECT_TRUE(contains(refusal({"train.z_loss=1e-4"}), "has no z-loss"));
  EXPECT_TRUE(contains(refusal({"preference.loss=simpo"}), "trains on completions of its own"));
  EXPECT_TRUE(contains(refusal({"train.precision=fp8"}), "not yet trained in 8 bits"));
  EXPECT_TRUE(contains(refusal({"optimizer.average_decay=0.99"}), "takes gradients elsewhere"));
  EXPECT_TRUE(contains(refusal({"grpo.reward=regex"}), "grpo.reward_pattern: is empty"));
  EXPECT_TRUE(contains(refusal({"grpo.reward=program"}), "grpo.reward_program: is empty"));
  EXPECT_TRUE(contains(refusal({"grpo.reward_pattern=a"}), "has an effect with grpo.reward=regex alone"));
  EXPECT_TRUE(contains(refusal({"grpo.reward=none"}), "has no effect without grpo.reward"));
  EXPECT_TRUE(contains(refusal({"grpo.sampling_batch_size=4"}), "does not divide train.batch_size"));
  EXPECT_TRUE(
      contains(refusal({"grpo.sampling_batch_size=3", "train.mesh_independent=true"}), "has no effect over a mesh"));
}

}  // namespace
}  // namespace causeway::train
