// Training on preference pairs: losses and figures of TRL and PyTorch, the reference, meshes, runs and validation.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>

#include "causeway/data/batch_loader.h"
#include "causeway/data/prepare.h"
#include "causeway/formats/tokenizer/json_tokenizer.h"
#include "causeway/model/hugging_face.h"
#include "causeway/train/preference/preference_evaluation.h"
#include "causeway/train/preference/reference_log_probabilities.h"
#include "causeway/train/step/training_step.h"
#include "causeway/train/trainer.h"
#include "causeway/train/training_data.h"
#include "tests/fixtures/data_test_support.h"
#include "tests/train/training_ranks.h"

namespace causeway::train {
namespace {

constexpr int64_t kPairs = 6, kRowsOfPairs = 2 * kPairs;

std::string model_of_pairs() { return (std::filesystem::path(CAUSEWAY_SOURCE_DIR) / "tests/fixtures/chat").string(); }

nlohmann::json expected_of_pairs() {
  return nlohmann::json::parse(
      read_text_file(std::filesystem::path(CAUSEWAY_SOURCE_DIR) / "tests/fixtures/preference/expected.json"));
}

class PreferenceTraining : public testing::Test {
 protected:
  PreferenceTraining() {
    PrepareOptions options;
    options.inputs = {std::filesystem::path(CAUSEWAY_SOURCE_DIR) / "tests/fixtures/preference/pairs.jsonl"};
    options.validation_inputs = {directory_.write("validation.jsonl", read_text_file(options.inputs.front()))};
    options.allow_shared_documents = true;
    options.output = directory_ / "pairs";
    options.chat.emplace();
    options.chat->templates = find_chat_templates(model_of_pairs());
    prepare_dataset(options, formats::JsonTokenizer::load(model_of_pairs()));
  }

  Recipe recipe(std::vector<std::string> overrides = {}) const {
    const std::string text =
        fmt::format(R"(name: pairs
run_directory: "{}"
model: {{from: "{}"}}
data: {{path: "{}", sequence_length: 80}}
preference: {{loss: dpo}}
optimizer: {{learning_rate: 5e-4, weight_decay: 0.1, gradient_clip: 1, beta1: 0.9, beta2: 0.95, epsilon: 1e-8}}
schedule: {{kind: constant, warmup_steps: 0}}
train: {{batch_size: {}, steps: 6, precision: f32}}
checkpoint: {{interval: 3, interval_minutes: 0}}
log: {{tensorboard: false}}
)",
                    (directory_ / "run").string(), model_of_pairs(), (directory_ / "pairs").string(), kRowsOfPairs);
    return parse_recipe(text, "recipe", overrides);
  }

  // Each step over all pairs, or over as many as the recipe's batch has.
  static std::vector<StepFigures> train_steps(const Recipe& recipe, int steps,
                                              const std::function<void(Batch&)>& change = {}) {
    const TrainingData data = open_training_data(recipe);
    const auto model = recipe.model_from.empty() ? LanguageModel::create(recipe.model, own_part(recipe), 3)
                                                 : load_hugging_face_model(recipe.model_from);
    std::optional<RunReference> reference;
    if (recipe.preference.has_reference()) reference = compute_reference(*model, recipe, data);
    TrainingStep step(*model, recipe);
    BatchOptions options;
    options.sequence_length = recipe.data.sequence_length;
    options.global_batch_size = recipe.train.batch_size;
    options.micro_batches = recipe.micro_batches();
    options.first_row = step.own_rows().first;
    options.rows = step.own_rows().count;
    options.all_are_inputs = recipe.preference.trains_reward_model();
    BatchLoader loader(data.dataset, data.order, options);
    std::vector<StepFigures> figures;
    for (int64_t i = 0; i < steps; ++i) {
      Batch batch = loader.next();
      const std::vector<float> of_rows = reference ? reference->training.of_rows(batch) : std::vector<float>();
      if (change) change(batch);
      TrainingBatch host{batch.inputs, batch.targets, {}, batch.global_valid_targets, batch.global_chosen_targets};
      if (reference) host.numbers = {of_rows};
      figures.push_back(step.run(host, i, recipe.optimizer.learning_rate));
    }
    return figures;
  }

  static void expect_losses(const std::vector<StepFigures>& figures, const nlohmann::json& losses, double bound) {
    ASSERT_EQ(figures.size(), losses.size());
    for (size_t i = 0; i < losses.size(); ++i)
      EXPECT_NEAR(figures[i].loss, losses[i].get<double>(), bound) << "step " << i;
  }
  static double largest_difference(const std::vector<StepFigures>& figures, const nlohmann::json& losses) {
    double largest = 0;
    for (size_t i = 0; i < figures.size(); ++i)
      largest = std::max(largest, std::abs(figures[i].loss - losses[i].get<double>()));
    return largest;
  }

  // Of a run with this recipe, by step.
  std::vector<nlohmann::json> metrics() const {
    std::istringstream lines(read_text_file(directory_ / "run" / "metrics.jsonl"));
    std::vector<nlohmann::json> records;
    for (std::string line; std::getline(lines, line);) {
      nlohmann::json record = nlohmann::json::parse(line);
      if (record.contains("loss")) records.push_back(std::move(record));
    }
    return records;
  }

  static TrainResult run(const Recipe& recipe, ResumeChoice resume = {}) {
    return train(recipe, {.resume = std::move(resume), .quiet = true, .watch_signals = false});
  }

  TemporaryDirectory directory_;
};

TEST_F(PreferenceTraining, FollowsTrlsLossesAndFiguresHoweverTheBatchIsCut) {
  const nlohmann::json dpo = expected_of_pairs()["dpo"];
  for (const char* micro_batch : {"12", "4"}) {
    const std::vector<StepFigures> figures =
        train_steps(recipe({fmt::format("train.micro_batch_size={}", micro_batch)}), 50);
    expect_losses(figures, dpo["losses"], 1e-5);
    for (size_t i = 0; i < figures.size(); ++i) {
      ASSERT_EQ(figures[i].figures.size(), 4u);
      EXPECT_NEAR(figures[i].figures[0], dpo["chosen_rewards"][i].get<double>(), 1e-4) << "step " << i;
      EXPECT_NEAR(figures[i].figures[1], dpo["rejected_rewards"][i].get<double>(), 1e-4) << "step " << i;
      EXPECT_NEAR(figures[i].figures[2], dpo["margins"][i].get<double>(), 1e-4) << "step " << i;
      EXPECT_NEAR(figures[i].figures[3], dpo["accuracies"][i].get<double>(), 1e-6) << "step " << i;
    }
    EXPECT_LT(figures.back().loss, 0.1);
  }
}

// The reference has the bits that the first step has.
TEST_F(PreferenceTraining, TheFirstStepTellsNothingApart) {
  for (const char* micro_batch : {"12", "4", "2"}) {
    for (const char* precision : {"f32", "bf16"}) {
      const StepFigures first = train_steps(recipe({fmt::format("train.micro_batch_size={}", micro_batch),
                                                    fmt::format("train.precision={}", precision)}),
                                            1)
                                    .front();
      for (const double figure : first.figures) EXPECT_EQ(figure, 0) << micro_batch << " " << precision;
      EXPECT_NEAR(first.loss, std::log(2.0), 1e-7) << micro_batch << " " << precision;
      EXPECT_GT(first.grad_norm, 0);
    }
  }
}

TEST_F(PreferenceTraining, FollowsTheOtherLosses) {
  const nlohmann::json expected = expected_of_pairs();
  for (const char* micro_batch : {"12", "4"}) {
    const std::string cut = fmt::format("train.micro_batch_size={}", micro_batch);
    expect_losses(train_steps(recipe({cut, "preference.loss=ipo"}), 10), expected["ipo"]["losses"], 1e-4);
    expect_losses(train_steps(recipe({cut, "preference.loss=simpo", "preference.beta=2"}), 10), expected["simpo"],
                  1e-5);
    expect_losses(train_steps(recipe({cut, "preference.loss=orpo"}), 10), expected["orpo"], 1e-5);
  }
}

// What the comparison would not let pass.
TEST_F(PreferenceTraining, MistakesAreFarFromTrlsLosses) {
  const nlohmann::json losses = expected_of_pairs()["dpo"]["losses"];
  const auto swap_sides = [](Batch& batch) {
    const auto row = batch.inputs.size() / static_cast<size_t>(kRowsOfPairs);
    for (size_t first = 0; first < batch.inputs.size(); first += 2 * row)
      for (std::vector<int32_t>* tokens : {&batch.inputs, &batch.targets})
        std::swap_ranges(tokens->begin() + static_cast<ptrdiff_t>(first),
                         tokens->begin() + static_cast<ptrdiff_t>(first + row),
                         tokens->begin() + static_cast<ptrdiff_t>(first + row));
  };
  EXPECT_GT(largest_difference(train_steps(recipe(), 10, swap_sides), losses), 0.1);
  const auto count_prompts = [](Batch& batch) {
    for (size_t i = 0; i + 1 < batch.inputs.size(); ++i)
      if (batch.targets[i] == kIgnoredTarget && batch.inputs[i + 1] != 0) batch.targets[i] = batch.inputs[i + 1];
  };
  // The first steps are alike: both sides have the same prompt.
  EXPECT_GT(largest_difference(train_steps(recipe(), 10, count_prompts), losses), 0.02);
  // Each micro-batch's own mean over its tokens, added up.
  const auto count_own_tokens = [](Batch& batch) { batch.global_chosen_targets /= 3; };
  EXPECT_GT(largest_difference(
                train_steps(recipe({"preference.loss=orpo", "train.micro_batch_size=4"}), 10, count_own_tokens),
                expected_of_pairs()["orpo"]),
            0.1);
}

// Of a model that tensor parallelism can cut.
TEST_F(PreferenceTraining, IsTheSameOnMeshes) {
  const auto on_mesh = [&](const char* loss, std::vector<std::string> overrides) {
    for (const char* key : {"model.from=", "model.family=llama", "model.layers=2", "model.width=32", "model.heads=4",
                            "model.kv_heads=2", "model.ffn_width=48", "model.max_sequence_length=80"})
      overrides.emplace_back(key);
    overrides.push_back(fmt::format("preference.loss={}", loss));
    return recipe(overrides);
  };
  for (const char* loss : {"dpo", "orpo"}) {
    const std::vector<StepFigures> one = train_steps(on_mesh(loss, {}), 4);
    EXPECT_LT(one.back().loss, one.front().loss);
    for (const std::vector<std::string>& mesh :
         std::vector<std::vector<std::string>>{{"mesh.dp=2"},
                                               {"mesh.fsdp=3"},
                                               {"mesh.tp=2"},
                                               {"mesh.fsdp=2", "train.micro_batch_size=4"},
                                               {"mesh.dp=3", "mesh.tp=2"}}) {
      const Recipe cut = on_mesh(loss, mesh);
      std::mutex mutex;
      on_ranks(cut.mesh, [&] {
        const std::vector<StepFigures> figures = train_steps(cut, 4);
        const std::lock_guard lock(mutex);
        for (size_t i = 0; i < one.size(); ++i) {
          EXPECT_NEAR(figures[i].loss, one[i].loss, 2e-5) << loss << " " << mesh[0] << " step " << i;
          EXPECT_NEAR(figures[i].grad_norm, one[i].grad_norm, 1e-3 * one[i].grad_norm) << mesh[0] << " step " << i;
          for (size_t k = 0; k < 4; ++k) EXPECT_NEAR(figures[i].figures[k], one[i].figures[k], 2e-4) << mesh[0];
        }
      });
    }
  }
}

// What is kept is read again, and computed again where it is not there or is of other weights: to the same bits.
TEST_F(PreferenceTraining, ResumesExactly) {
  ASSERT_EQ(run(recipe()).step, 6);
  const std::vector<nlohmann::json> whole = metrics();
  ASSERT_EQ(whole.size(), 6u);
  EXPECT_EQ(whole[0]["reward_margin"], 0);
  EXPECT_GT(whole[5]["reward_margin"], 0.1);
  EXPECT_EQ(whole[5]["reward_accuracy"], 1);
  EXPECT_GT(whole[5]["chosen_reward"], whole[5]["rejected_reward"]);
  const std::string kept = read_text_file(directory_ / "run" / kReferenceFile);
  const auto expect_same_end = [&](const char* what) {
    const std::vector<nlohmann::json> resumed = metrics();
    ASSERT_EQ(resumed.size(), 6u) << what;
    for (size_t i = 3; i < 6; ++i)
      for (const char* key : {"loss", "grad_norm", "reward_margin", "chosen_reward"})
        EXPECT_EQ(resumed[i][key], whole[i][key]) << what << ", step " << i + 1 << " " << key;
    EXPECT_EQ(read_text_file(directory_ / "run" / kReferenceFile), kept) << what;
  };
  const std::string third = (directory_ / "run" / "checkpoints" / "step-00000003").string();
  const auto resume = [&] { run(recipe(), {ResumeMode::kFrom, third}); };
  resume();
  expect_same_end("the file is there");
  std::filesystem::remove(directory_ / "run" / kReferenceFile);
  resume();
  expect_same_end("the file is missing");
  std::string other = kept;
  const size_t hash = other.find("\"weights\":\"") + 11;
  other[hash] = other[hash] == '0' ? '1' : '0';
  other.back() = static_cast<char>(other.back() ^ 1);
  write_file_atomically(directory_ / "run" / kReferenceFile, other);
  resume();
  expect_same_end("the file is of other weights");
}

// The reference is of the weights that the run began with, whatever has become of model.from since.
TEST_F(PreferenceTraining, GoesOnWithItsReferenceWhereTheModelHasChanged) {
  const std::filesystem::path model = directory_ / "model";
  std::filesystem::copy(model_of_pairs(), model, std::filesystem::copy_options::recursive);
  const Recipe of_run = recipe({fmt::format("model.from={}", model.string())});
  ASSERT_EQ(run(of_run).step, 6);
  const std::vector<nlohmann::json> whole = metrics();
  const std::filesystem::path file = directory_ / "run" / kReferenceFile;
  const std::string kept = read_text_file(file), weights = read_text_file(model / "model.safetensors");
  std::string other = weights;
  other[other.size() - 2] = static_cast<char>(other[other.size() - 2] ^ 0x40);
  write_file_atomically(model / "model.safetensors", other);
  const std::string third = (directory_ / "run" / "checkpoints" / "step-00000003").string();
  const auto resume = [&] { run(of_run, {ResumeMode::kFrom, third}); };
  const auto expect_same_end = [&] {
    const std::vector<nlohmann::json> resumed = metrics();
    ASSERT_EQ(resumed.size(), 6u);
    for (size_t i = 3; i < 6; ++i) EXPECT_EQ(resumed[i]["reward_margin"], whole[i]["reward_margin"]) << i;
    EXPECT_EQ(read_text_file(file), kept);
  };
  resume();
  expect_same_end();
  // Without the file the weights are needed, and these are others.
  std::filesystem::remove(file);
  const Error error = caught(resume);
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_EQ(error.where(), "model.from");
  EXPECT_TRUE(contains(error.message(), "preference.loss=dpo compares the model with the weights that the run began"))
      << error.message();
  EXPECT_TRUE(contains(error.message(), fmt::format("{} holds others", model.string()))) << error.message();
  EXPECT_FALSE(std::filesystem::exists(file));
  write_file_atomically(model / "model.safetensors", weights);
  resume();
  expect_same_end();
}

// Of a run that never came to a checkpoint: the file is of other weights than a new one begins with.
TEST_F(PreferenceTraining, ANewRunTakesNoReferenceOfOtherWeights) {
  const std::filesystem::path model = directory_ / "model", file = directory_ / "run" / kReferenceFile;
  std::filesystem::copy(model_of_pairs(), model, std::filesystem::copy_options::recursive);
  const Recipe of_run = recipe({fmt::format("model.from={}", model.string()), "train.steps=1"});
  run(of_run);
  const std::string before = read_text_file(file);
  std::filesystem::remove_all(directory_ / "run" / "checkpoints");
  std::string other = read_text_file(model / "model.safetensors");
  other[other.size() - 2] = static_cast<char>(other[other.size() - 2] ^ 0x40);
  write_file_atomically(model / "model.safetensors", other);
  run(of_run);
  EXPECT_NE(read_text_file(file), before);
}

TEST_F(PreferenceTraining, WeightsThatAreNotThereHaveNoIdentity) {
  Recipe of_run = recipe();
  EXPECT_FALSE(identity_of_weights(of_run).empty());
  of_run.adapter_from = (directory_ / "no_adapters").string();
  EXPECT_EQ(identity_of_weights(of_run), "");
  of_run.model_from = (directory_ / "no_model").string();
  EXPECT_EQ(identity_of_weights(of_run), "");
}

TEST_F(PreferenceTraining, IsEvaluatedOverPairs) {
  const nlohmann::json dpo = expected_of_pairs()["dpo"];
  for (const int rows : {12, 4, 8}) {  // of the last the second micro-batch is not full
    Recipe of_run = recipe();
    of_run.train.micro_batch_size = rows;
    const TrainingData data = open_training_data(of_run);
    const auto model = load_hugging_face_model(model_of_pairs());
    const RunReference reference = compute_reference(*model, of_run, data);
    PreferenceEvaluator evaluator(*model, of_run, *data.validation, &*reference.validation);
    const EvaluationResult first = evaluator.run();
    EXPECT_NEAR(first.loss, std::log(2.0), 1e-6) << rows;
    EXPECT_EQ(first.pairs, kPairs);
    EXPECT_EQ(first.accuracy, 0);
  }
  // After so many steps: the loss of the next.
  const Recipe of_run = recipe({"train.steps=5", "log.interval=1"});
  const TrainResult result = run(of_run);
  ASSERT_TRUE(result.validation_loss.has_value());
  EXPECT_NEAR(*result.validation_loss, dpo["losses"][5].get<double>(), 1e-4);
  std::istringstream lines(read_text_file(directory_ / "run" / "metrics.jsonl"));
  nlohmann::json of_pairs;
  for (std::string line; std::getline(lines, line);)
    if (line.find("validation_loss") != std::string::npos) of_pairs = nlohmann::json::parse(line);
  EXPECT_EQ(of_pairs["validation_pairs"], kPairs);
  EXPECT_NEAR(of_pairs["validation_accuracy"], dpo["accuracies"][5].get<double>(), 1e-6);
}

TEST_F(PreferenceTraining, DataAndLossMustBeOfOneKind) {
  const auto refusal = [](const Recipe& recipe) { return caught([&] { open_training_data(recipe); }); };
  const Error none = refusal(recipe({"preference.loss=none"}));
  EXPECT_EQ(none.where(), "preference.loss");
  EXPECT_EQ(none.message(), fmt::format("is none, and {} holds preference pairs", (directory_ / "pairs").string()));
  PrepareOptions options;
  options.inputs = {std::filesystem::path(model_of_pairs()) / "chats.jsonl"};
  options.output = directory_ / "chats";
  options.chat.emplace();
  options.chat->templates = find_chat_templates(model_of_pairs());
  prepare_dataset(options, formats::JsonTokenizer::load(model_of_pairs()));
  const Error pairs = refusal(recipe({fmt::format("data.path={}", options.output.string())}));
  EXPECT_EQ(pairs.where(), "preference.loss");
  EXPECT_EQ(pairs.message(), fmt::format("is dpo, and {} holds no preference pairs", options.output.string()));
  const Error longer = refusal(recipe({"data.sequence_length=40"}));
  EXPECT_TRUE(contains(longer.message(), "completions with their prompts have more than 41 tokens, the longest 79"))
      << longer.message();
}

TEST_F(PreferenceTraining, NeedsTheModelThatItBeginsWith) {
  Recipe without = recipe();
  without.model_from.clear();
  const Error error = caught([&] { run(without); });
  EXPECT_EQ(error.where(), "model.from");
  EXPECT_TRUE(contains(error.message(), "compares the model with the one that the run begins with, and none is named"));
}

TEST_F(PreferenceTraining, WhatDoesNotFitIsRefusedByName) {
  const auto refusal = [&](std::vector<std::string> overrides) {
    const Error error = caught([&] { recipe(std::move(overrides)); });
    return fmt::format("{}: {}", error.where(), error.message());
  };
  EXPECT_EQ(refusal({"train.batch_size=7"}),
            "command line: train.batch_size: 7 sequences are no pairs, and preference.loss=dpo trains on pairs");
  EXPECT_EQ(
      refusal({"train.micro_batch_size=3"}),
      "command line: train.micro_batch_size: 3 sequences are not whole pairs: a pair's two sequences stand in one "
      "micro-batch");
  EXPECT_TRUE(contains(refusal({"mesh.dp=4"}), "not whole pairs for each rank of mesh.dp x mesh.fsdp"));
  EXPECT_EQ(refusal({"mesh.pp=2"}), "command line: mesh.pp: preference.loss=dpo is not yet trained over stages");
  EXPECT_EQ(refusal({"mesh.cp=2"}), "command line: mesh.cp: preference.loss=dpo is not yet trained with cut sequences");
  EXPECT_TRUE(contains(refusal({"data.packing=documents"}), "has each completion in a row of its own"));
  EXPECT_TRUE(contains(refusal({"data.document_mask=true"}), "nothing is to be masked"));
  EXPECT_TRUE(contains(refusal({"preference.beta=0"}), "must be above 0"));
  EXPECT_TRUE(contains(refusal({"preference.label_smoothing=0.5"}), "must be at least 0 and below 0.5"));
  EXPECT_TRUE(contains(refusal({"preference.margin=1"}), "has an effect with preference.loss=simpo alone"));
  EXPECT_TRUE(contains(refusal({"preference.loss=simpo", "preference.label_smoothing=0.1"}),
                       "has an effect with preference.loss=dpo alone"));
  EXPECT_TRUE(contains(refusal({"preference.loss=dpu"}), "'dpu' is not one of none, dpo, ipo, simpo, orpo"));
}

}  // namespace
}  // namespace causeway::train
