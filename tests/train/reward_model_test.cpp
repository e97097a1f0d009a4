// Reward models: scores of transformers, losses and figures of TRL, meshes, runs, and Hugging Face directories.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>

#include "causeway/data/batch_loader.h"
#include "causeway/data/prepare.h"
#include "causeway/formats/tokenizer/json_tokenizer.h"
#include "causeway/model/hugging_face.h"
#include "causeway/train/hugging_face/export_checkpoint.h"
#include "causeway/train/hugging_face/import_model.h"
#include "causeway/train/preference/pair_pass.h"
#include "causeway/train/preference/preference_evaluation.h"
#include "causeway/train/step/preference_objective.h"
#include "causeway/train/step/training_step.h"
#include "causeway/train/trainer.h"
#include "causeway/train/training_data.h"
#include "tests/fixtures/data_test_support.h"
#include "tests/train/training_ranks.h"

namespace causeway::train {
namespace {

constexpr int64_t kRewardRows = 12;

std::string base_of_reward() { return (std::filesystem::path(CAUSEWAY_SOURCE_DIR) / "tests/fixtures/chat").string(); }

nlohmann::json expected_of_reward() {
  return nlohmann::json::parse(
      read_text_file(std::filesystem::path(CAUSEWAY_SOURCE_DIR) / "tests/fixtures/reward/expected.json"));
}

class RewardModel : public testing::Test {
 protected:
  RewardModel() {
    PrepareOptions options;
    options.inputs = {std::filesystem::path(CAUSEWAY_SOURCE_DIR) / "tests/fixtures/preference/pairs.jsonl"};
    options.validation_inputs = {directory_.write("validation.jsonl", read_text_file(options.inputs.front()))};
    options.allow_shared_documents = true;
    options.output = directory_ / "pairs";
    options.chat.emplace();
    options.chat->templates = find_chat_templates(base_of_reward());
    prepare_dataset(options, formats::JsonTokenizer::load(base_of_reward()));
  }

  Recipe recipe(std::vector<std::string> overrides = {}) const {
    const std::string text =
        fmt::format(R"(name: reward
run_directory: "{}"
model: {{from: "{}"}}
data: {{path: "{}", sequence_length: 80}}
preference: {{loss: reward}}
optimizer: {{learning_rate: 5e-4, weight_decay: 0.1, gradient_clip: 1, beta1: 0.9, beta2: 0.95, epsilon: 1e-8}}
schedule: {{kind: constant, warmup_steps: 0}}
train: {{batch_size: {}, steps: 6, precision: f32}}
checkpoint: {{interval: 3, interval_minutes: 0}}
log: {{tensorboard: false}}
)",
                    (directory_ / "run").string(), base_of_reward(), (directory_ / "pairs").string(), kRewardRows);
    return parse_recipe(text, "recipe", overrides);
  }

  // The fixture's model with its first score.
  static std::unique_ptr<LanguageModel> scored_model(const Recipe& recipe) {
    std::unique_ptr<LanguageModel> model = LanguageModel::create(recipe.model, std::nullopt);
    load_parameters(*model, SafetensorsModel(base_of_reward()), kScoreWeight);
    const auto score = expected_of_reward()["score"].get<std::vector<float>>();
    Tensor weight = model->parameter(kScoreWeight).tensor;
    weight.write_bytes(std::as_bytes(std::span(score)));
    return model;
  }

  static std::vector<StepFigures> train_steps(const Recipe& recipe, LanguageModel& model, int steps,
                                              const std::function<void(Batch&)>& change = {}) {
    const TrainingData data = open_training_data(recipe);
    TrainingStep step(model, recipe);
    BatchOptions options;
    options.sequence_length = recipe.data.sequence_length;
    options.global_batch_size = recipe.train.batch_size;
    options.micro_batches = recipe.micro_batches();
    options.first_row = step.own_rows().first;
    options.rows = step.own_rows().count;
    options.all_are_inputs = true;
    BatchLoader loader(data.dataset, data.order, options);
    std::vector<StepFigures> figures;
    for (int64_t i = 0; i < steps; ++i) {
      Batch batch = loader.next();
      if (change) change(batch);
      const TrainingBatch host{
          batch.inputs, batch.targets, {}, batch.global_valid_targets, batch.global_chosen_targets};
      figures.push_back(step.run(host, i, recipe.optimizer.learning_rate));
    }
    return figures;
  }
  static std::vector<StepFigures> train_steps(const Recipe& recipe, int steps,
                                              const std::function<void(Batch&)>& change = {}) {
    const auto model = scored_model(recipe);
    return train_steps(recipe, *model, steps, change);
  }

  TemporaryDirectory directory_;
};

// Of every side the last token, which is no target of a language model.
TEST_F(RewardModel, GivesTheScoresOfTransformers) {
  const nlohmann::json expected = expected_of_reward();
  for (const int rows : {12, 8}) {  // of the latter the last micro-batch is not full
    Recipe of_run = recipe();
    of_run.train.micro_batch_size = rows;
    const TrainingData data = open_training_data(of_run);
    const auto model = scored_model(of_run);
    PairPass pass(*model, of_run, data.dataset, nullptr,
                  [](const LanguageModel& scored, const MicroBatch& batch) -> std::vector<Tensor> {
                    return {scores_of_rows(scored, batch)};
                  });
    const DocumentPairs pairs(data.dataset, 0, of_run.data.sequence_length, true);
    std::vector<double> scores;
    pass.run(pairs, pairs.samples(), [&](const Batch& batch, int64_t count, const std::vector<Tensor>& results) {
      const std::vector<double> of_rows = results.front().values();
      scores.insert(scores.end(), of_rows.begin(), of_rows.begin() + count);
      if (rows == 12) {
        for (size_t pair = 0; pair < 6; ++pair)
          for (const size_t side : {0, 1}) {
            const auto ids = expected["pairs"][pair][side == 0 ? "chosen" : "rejected"].get<std::vector<int32_t>>();
            const auto row = std::span(batch.inputs).subspan((2 * pair + side) * 80, 80);
            EXPECT_TRUE(std::equal(ids.begin(), ids.end(), row.begin())) << pair << " " << side;
          }
      }
    });
    ASSERT_EQ(scores.size(), 12u);
    for (size_t pair = 0; pair < 6; ++pair) {
      EXPECT_NEAR(scores[2 * pair], expected["scores"][pair]["chosen"].get<double>(), 2e-6) << pair;
      EXPECT_NEAR(scores[2 * pair + 1], expected["scores"][pair]["rejected"].get<double>(), 2e-6) << pair;
    }
  }
}

TEST_F(RewardModel, FollowsTrlsLossesHoweverTheBatchIsCut) {
  const nlohmann::json expected = expected_of_reward();
  for (const char* micro_batch : {"12", "4"}) {
    const std::string cut = fmt::format("train.micro_batch_size={}", micro_batch);
    const std::vector<StepFigures> figures = train_steps(recipe({cut}), 50);
    const nlohmann::json& plain = expected["reward"];
    for (size_t i = 0; i < 50; ++i) {
      EXPECT_NEAR(figures[i].loss, plain["losses"][i].get<double>(), 1e-4) << i;
      EXPECT_NEAR(figures[i].figures[2], plain["margins"][i].get<double>(), 2e-3) << i;
      EXPECT_NEAR(figures[i].figures[3], plain["accuracies"][i].get<double>(), 1e-6) << i;
      const double norm = plain["grad_norms"][i].get<double>();
      EXPECT_NEAR(figures[i].grad_norm, norm, 1e-3 * norm + 1e-5) << i;
    }
    EXPECT_LT(figures.back().loss, 1e-3);
    const std::vector<StepFigures> centered = train_steps(
        recipe({cut, fmt::format("preference.center_rewards_coefficient={}", expected["center"].get<double>())}), 10);
    for (size_t i = 0; i < 10; ++i)
      EXPECT_NEAR(centered[i].loss, expected["centered"]["losses"][i].get<double>(), 1e-4) << i;
  }
}

// What the comparison would not let pass.
TEST_F(RewardModel, MistakesAreFarFromTrlsLosses) {
  const nlohmann::json losses = expected_of_reward()["reward"]["losses"];
  const auto largest_difference = [&](const std::vector<StepFigures>& figures) {
    double largest = 0;
    for (size_t i = 0; i < figures.size(); ++i)
      largest = std::max(largest, std::abs(figures[i].loss - losses[i].get<double>()));
    return largest;
  };
  // The token before the last one, as where the last is no input.
  const auto score_earlier = [](Batch& batch) { std::shift_left(batch.targets.begin(), batch.targets.end(), 1); };
  EXPECT_GT(largest_difference(train_steps(recipe(), 10, score_earlier)), 0.02);
  // The end of the row, where there is padding.
  const auto score_padding = [](Batch& batch) {
    std::ranges::fill(batch.targets, kIgnoredTarget);
    for (size_t end = 79; end < batch.targets.size(); end += 80) batch.targets[end] = 0;
  };
  EXPECT_GT(largest_difference(train_steps(recipe(), 10, score_padding)), 0.02);
}

TEST_F(RewardModel, IsTheSameOnMeshes) {
  const auto on_mesh = [&](std::vector<std::string> overrides) {
    for (const char* key :
         {"model.from=", "model.family=llama", "model.layers=2", "model.width=32", "model.heads=4", "model.kv_heads=2",
          "model.ffn_width=48", "model.vocabulary_size=300", "model.max_sequence_length=80"})
      overrides.emplace_back(key);
    return recipe(overrides);
  };
  const auto steps_of = [](const Recipe& of_run) {
    const auto model = LanguageModel::create(of_run.model, own_part(of_run), 3);
    return train_steps(of_run, *model, 4);
  };
  const std::vector<StepFigures> one = steps_of(on_mesh({}));
  EXPECT_LT(one.back().loss, one.front().loss);
  for (const std::vector<std::string>& mesh : std::vector<std::vector<std::string>>{
           {"mesh.dp=2"}, {"mesh.fsdp=2", "train.micro_batch_size=4"}, {"mesh.tp=2"}}) {
    const Recipe cut = on_mesh(mesh);
    std::mutex mutex;
    on_ranks(cut.mesh, [&] {
      const std::vector<StepFigures> figures = steps_of(cut);
      const std::lock_guard lock(mutex);
      for (size_t i = 0; i < one.size(); ++i) {
        EXPECT_NEAR(figures[i].loss, one[i].loss, 2e-5) << mesh[0] << " step " << i;
        EXPECT_NEAR(figures[i].grad_norm, one[i].grad_norm, 1e-3 * one[i].grad_norm) << mesh[0] << " step " << i;
      }
    });
  }
}

// A run begins with a language model, goes on bit for bit, and its export is a model that another run begins with.
TEST_F(RewardModel, IsTrainedResumedAndExported) {
  const auto run = [](const Recipe& of_run, ResumeChoice resume = {}) {
    return train(of_run, {.resume = std::move(resume), .quiet = true, .watch_signals = false});
  };
  const auto losses = [&](const char* name) {
    std::istringstream lines(read_text_file(directory_ / name / "metrics.jsonl"));
    std::vector<nlohmann::json> records;
    for (std::string line; std::getline(lines, line);)
      if (nlohmann::json record = nlohmann::json::parse(line); record.contains("loss")) records.push_back(record);
    return records;
  };
  const TrainResult result = run(recipe());
  EXPECT_TRUE(result.validation_loss.has_value());
  const std::vector<nlohmann::json> whole = losses("run");
  ASSERT_EQ(whole.size(), 6u);
  EXPECT_TRUE(whole[5].contains("reward_accuracy"));
  run(recipe(), {ResumeMode::kFrom, (directory_ / "run" / "checkpoints" / "step-00000003").string()});
  const std::vector<nlohmann::json> resumed = losses("run");
  for (size_t i = 3; i < 6; ++i) EXPECT_EQ(resumed[i]["loss"], whole[i]["loss"]) << i;

  ExportOptions options;
  options.checkpoint = result.checkpoint;
  options.output = directory_ / "exported";
  const ExportResult exported = export_checkpoint(options);
  EXPECT_EQ(exported.difference.largest, 0);
  const auto config = nlohmann::json::parse(read_text_file(directory_ / "exported" / "config.json"));
  EXPECT_EQ(config["architectures"], nlohmann::json::array({"LlamaForSequenceClassification"}));
  EXPECT_EQ(config["id2label"], (nlohmann::json{{"0", "LABEL_0"}}));
  const SafetensorsModel weights(directory_ / "exported");
  EXPECT_EQ(weights.entry("score.weight").shape, (std::vector<int64_t>{1, 32}));
  EXPECT_FALSE(weights.contains("lm_head.weight"));
  // Read again, by import too.
  const ModelConfig read = read_hugging_face_config(directory_ / "exported");
  EXPECT_TRUE(read.score_head);
  EXPECT_EQ(exported.parameters, parameter_count(read));
  ImportOptions imported;
  imported.source = directory_ / "exported";
  imported.output = directory_ / "imported";
  import_model(imported);
  EXPECT_EQ(nlohmann::json::parse(read_text_file(directory_ / "imported" / "config.json"))["architectures"],
            config["architectures"]);
  const Recipe next = recipe({fmt::format("model.from={}", (directory_ / "imported").string()),
                              fmt::format("run_directory={}", (directory_ / "next").string()), "train.steps=1"});
  run(next);
  const std::vector<nlohmann::json> first = losses("next");
  // With what was learned, not with a new score.
  EXPECT_LT(first[0]["loss"].get<double>(), whole[5]["loss"].get<double>());
  EXPECT_EQ(caught([&] {
              recipe({fmt::format("model.from={}", (directory_ / "imported").string()), "preference.loss=dpo"});
            }).message(),
            fmt::format("{} holds a reward model, which gives scores and has no output layer",
                        (directory_ / "imported").string()));
}

TEST_F(RewardModel, WhatDoesNotFitIsRefusedByName) {
  const auto refusal = [&](std::vector<std::string> overrides) {
    const Error error = caught([&] { recipe(std::move(overrides)); });
    return fmt::format("{}: {}", error.where(), error.message());
  };
  EXPECT_TRUE(contains(refusal({"lora.rank=4"}), "trains the weight of the score"));
  EXPECT_TRUE(contains(refusal({"preference.beta=0.2"}), "has no effect with preference.loss=reward"));
  EXPECT_TRUE(contains(refusal({"preference.margin=1"}), "has an effect with preference.loss=simpo alone"));
  EXPECT_TRUE(contains(refusal({"preference.loss=dpo", "preference.center_rewards_coefficient=0.1"}),
                       "has an effect with preference.loss=reward alone"));
  EXPECT_TRUE(contains(refusal({"preference.center_rewards_coefficient=-1"}), "must not be negative"));
  EXPECT_TRUE(contains(refusal({"sampling.interval=5"}), "gives scores and writes no text"));
  // A side has its last token in its row, too.
  const Error longer = caught([&] { open_training_data(recipe({"data.sequence_length=78"})); });
  EXPECT_TRUE(contains(longer.message(), "have more than 78 tokens, the longest 79")) << longer.message();
  EXPECT_TRUE(contains(longer.hint(), "data.sequence_length=79")) << longer.hint();
  open_training_data(recipe({"data.sequence_length=79"}));
}

}  // namespace
}  // namespace causeway::train
