#include "causeway/train/checkpoint/run_saver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <thread>

#include "causeway/base/error.h"
#include "tests/fixtures/temporary_directory.h"

namespace causeway::train {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Clock = RunSaver::Clock;

constexpr char kSavedRecipe[] = R"(name: small
model: {family: llama, vocabulary_size: 256, layers: 1, width: 8, heads: 1, ffn_width: 16, max_sequence_length: 8}
data: {path: data, sequence_length: 8}
train: {batch_size: 1}
checkpoint: {interval: 10, interval_minutes: 15, keep: 2}
)";

class RunSaverTest : public ::testing::Test {
 protected:
  RunSaverTest() {
    std::ofstream(directory_ / "text.bin", std::ios::binary) << std::string(2000, '\1');
    recipe_.run_directory = (directory_ / "run").string();
    std::filesystem::create_directory(directory_ / "run");
    dataset_.emplace(TokenDataset::open(directory_ / "text.bin"));
    model_ = LanguageModel::create(recipe_.model, 1);
    step_.emplace(*model_, recipe_);
    parts_.emplace(RunParts{recipe_, *dataset_, nullptr, *model_, *step_});
    lock_.emplace(recipe_.run_directory);
  }

  std::vector<int64_t> steps() const {
    std::vector<int64_t> steps;
    for (const CheckpointEntry& entry : list_checkpoints(recipe_.run_directory)) steps.push_back(entry.step);
    return steps;
  }

  TemporaryDirectory directory_;
  Recipe recipe_ = parse_recipe(kSavedRecipe, "recipe", {});
  std::optional<TokenDataset> dataset_;
  std::unique_ptr<LanguageModel> model_;
  std::optional<TrainingStep> step_;
  std::optional<RunParts> parts_;
  std::optional<RunLock> lock_;
  const Clock::time_point start_ = Clock::now();
};

TEST_F(RunSaverTest, DueByStepsAndByTime) {
  using std::chrono::minutes;
  RunSaver saver(*parts_, &*lock_, 0, start_);
  EXPECT_EQ(saver.describe_schedule(), "every 10 steps and every 15 minutes; the last 2 kept");
  EXPECT_FALSE(saver.is_due(9, start_));
  EXPECT_TRUE(saver.is_due(10, start_));
  EXPECT_FALSE(saver.is_due(9, start_ + minutes(14)));
  EXPECT_TRUE(saver.is_due(9, start_ + minutes(15)));
  ASSERT_TRUE(saver.save({.step = 9}, start_ + minutes(15)));
  EXPECT_FALSE(saver.is_due(11, start_ + minutes(29)));
  EXPECT_TRUE(saver.is_due(11, start_ + minutes(30)));
  recipe_.checkpoint.interval = 0;
  EXPECT_FALSE(saver.is_due(20, start_ + minutes(29)));
  EXPECT_EQ(saver.describe_schedule(), "every 15 minutes; the last 2 kept");
  recipe_.checkpoint.interval_minutes = 0;
  EXPECT_FALSE(saver.is_due(20, start_ + minutes(300)));
  EXPECT_EQ(saver.describe_schedule(), "only at the end and on a signal; the last 2 kept");
}

TEST_F(RunSaverTest, AFailedSaveIsTriedAgainAfterAMinute) {
  using std::chrono::seconds;
  RunSaver saver(*parts_, &*lock_, 0, start_);
  std::ofstream(directory_ / "run/checkpoints") << "in the way";
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(saver.save({.step = 10}, start_));
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("error"));
  EXPECT_THAT(said, HasSubstr("run/checkpoints"));
  EXPECT_THAT(said, HasSubstr("Training goes on, and the save is tried again in 60 seconds."));
  EXPECT_FALSE(saver.is_due(20, start_ + seconds(59)));
  EXPECT_TRUE(saver.is_due(21, start_ + seconds(60)));
  EXPECT_THROW(saver.save_or_throw({.step = 21}, start_), Error);
  std::filesystem::remove(directory_ / "run/checkpoints");
  EXPECT_TRUE(saver.save({.step = 22}, start_ + seconds(60)));
  EXPECT_FALSE(saver.is_due(23, start_ + seconds(61)));
  EXPECT_TRUE(saver.is_due(30, start_ + seconds(61)));
  EXPECT_THAT(steps(), ElementsAre(22));
}

TEST_F(RunSaverTest, ACopyIsWrittenWhileTheRunGoesOn) {
  using std::chrono::minutes;
  RunSaver saver(*parts_, &*lock_, 0, start_);
  EXPECT_EQ(saver.copy_bytes(), 0);
  saver.choose_method();
  EXPECT_GT(saver.copy_bytes(), 3 * 4 * parameter_count(recipe_.model));
  EXPECT_THAT(saver.describe_schedule(),
              HasSubstr("; the last 2 kept; written while training goes on, from a copy of "));
  Tensor weight = model_->parameters().front().tensor;
  std::vector<float> values(weight.buffer().bytes / sizeof(float), 1.0f);
  for (const int64_t step : {10, 20, 30}) {
    values.assign(values.size(), static_cast<float>(step));
    weight.write_bytes(std::as_bytes(std::span(values)));
    saver.attend(step, start_);
    EXPECT_TRUE(saver.save({.step = step}, start_));
    // What comes after is another state.
    values.assign(values.size(), -1.0f);
    weight.write_bytes(std::as_bytes(std::span(values)));
    EXPECT_FALSE(saver.is_due(step, start_));
    if (step == 20) continue;  // the next save waits for it
    if (step == 30) {
      const std::optional<SavedCheckpoint> before = saver.take_committed();
      ASSERT_TRUE(before);
      EXPECT_EQ(before->step, 20);
    }
    std::optional<SavedCheckpoint> saved;
    for (int i = 0; i < 20000 && !saved; ++i) {
      saver.attend(step, start_);
      saved = saver.take_committed();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_TRUE(saved) << step;
    EXPECT_EQ(saved->step, step);
    EXPECT_GT(saved->pause_seconds, 0);
    EXPECT_GT(saved->seconds, saved->pause_seconds);
    EXPECT_FALSE(saver.take_committed());
    EXPECT_EQ(saved->directory, list_checkpoints(recipe_.run_directory).back().directory);
  }
  EXPECT_THAT(steps(), ElementsAre(20, 30));
  for (const CheckpointEntry& entry : list_checkpoints(recipe_.run_directory)) {
    EXPECT_TRUE(verify_checkpoint(entry.directory).empty());
    CheckpointReader(entry.directory)
        .read(model_->parameters().front().name, std::as_writable_bytes(std::span(values)));
    EXPECT_THAT(values, Each(static_cast<float>(entry.step)));
  }
  // Time counts from when a save was due.
  EXPECT_TRUE(saver.save({.step = 35}, start_ + minutes(1)));
  EXPECT_FALSE(saver.is_due(36, start_ + minutes(15)));
  EXPECT_TRUE(saver.is_due(36, start_ + minutes(16)));
  // The end waits, too.
  saver.save_or_throw({.step = 36}, start_ + minutes(2));
  EXPECT_THAT(steps(), ElementsAre(35, 36));
}

TEST_F(RunSaverTest, NothingIsCopiedWhereNothingIsSavedMeanwhileOrTheRecipeDoesNotAsk) {
  recipe_.checkpoint.asynchronous = false;
  RunSaver asked(*parts_, &*lock_, 0, start_);
  asked.choose_method();
  EXPECT_EQ(asked.copy_bytes(), 0);
  recipe_.checkpoint = {.interval = 0, .interval_minutes = 0};
  RunSaver at_the_end(*parts_, &*lock_, 0, start_);
  at_the_end.choose_method();
  EXPECT_EQ(at_the_end.copy_bytes(), 0);
}

TEST_F(RunSaverTest, AWriterThatFailsIsAFailedSave) {
  using std::chrono::seconds;
  RunSaver saver(*parts_, &*lock_, 0, start_);
  saver.choose_method();
  std::ofstream(directory_ / "run/checkpoints") << "in the way";
  EXPECT_TRUE(saver.save({.step = 10}, start_));
  std::string said;
  for (int i = 0; i < 20000 && said.empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ::testing::internal::CaptureStderr();
    saver.attend(1, start_);
    said = ::testing::internal::GetCapturedStderr();
  }
  EXPECT_THAT(said, HasSubstr("the checkpoint of step 10 was not saved: "));
  EXPECT_THAT(said, HasSubstr("Training goes on, and the save is tried again in 60 seconds."));
  EXPECT_FALSE(saver.take_committed());
  EXPECT_FALSE(saver.is_due(20, start_ + seconds(59)));
  EXPECT_TRUE(saver.is_due(21, start_ + seconds(60)));
  // The end says it, and throws what fails then.
  EXPECT_TRUE(saver.save({.step = 21}, start_ + seconds(60)));
  ::testing::internal::CaptureStderr();
  EXPECT_THROW(saver.save_or_throw({.step = 22}, start_ + seconds(61)), Error);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("the checkpoint of step 21 was not saved"));
  std::filesystem::remove(directory_ / "run/checkpoints");
  EXPECT_TRUE(saver.save({.step = 23}, start_ + seconds(62)));
  EXPECT_THAT(saver.save_what_can_be_saved({.step = 23}, true),
              HasSubstr("the checkpoint of step 23 is of this state"));
  EXPECT_THAT(steps(), ElementsAre(23));
}

TEST_F(RunSaverTest, AnErrorEndsTheRunAfterWhatIsUnderWay) {
  RunSaver saver(*parts_, &*lock_, 0, start_);
  saver.choose_method();
  EXPECT_TRUE(saver.save({.step = 1}, start_));
  EXPECT_THAT(saver.save_what_can_be_saved({.step = 2}, true), HasSubstr("The state after step 2 was saved to "));
  EXPECT_THAT(steps(), ElementsAre(1, 2));
  EXPECT_EQ(saver.copy_bytes(), 0);
}

TEST_F(RunSaverTest, WhatCanBeSavedBeforeAnErrorEndsTheRun) {
  RunSaver saver(*parts_, &*lock_, 0, start_);
  EXPECT_THAT(saver.save_what_can_be_saved({.step = 0}, true), HasSubstr("nothing to save"));
  EXPECT_THAT(saver.save_what_can_be_saved({.step = 5}, false), HasSubstr("may be of two steps and were not saved"));
  for (const int64_t step : {1, 2}) saver.save_or_throw({.step = step}, start_);
  // Beyond checkpoint.keep: what comes last may be worth less than what came before it.
  EXPECT_THAT(saver.save_what_can_be_saved({.step = 3}, true), HasSubstr("The state after step 3 was saved to "));
  EXPECT_THAT(steps(), ElementsAre(1, 2, 3));
  EXPECT_THAT(saver.save_what_can_be_saved({.step = 3}, true), HasSubstr("Nothing is lost"));

  Tensor weight = model_->parameters().front().tensor;
  std::vector<float> values(weight.buffer().bytes / sizeof(float), 1.0f);
  values.back() = std::numeric_limits<float>::infinity();
  weight.write_bytes(std::as_bytes(std::span(values)));
  EXPECT_THAT(saver.save_what_can_be_saved({.step = 4}, true),
              HasSubstr("not finite themselves and were not saved; the newest checkpoint is of step 3."));
  EXPECT_THAT(steps(), ElementsAre(1, 2, 3));
}

}  // namespace
}  // namespace causeway::train
