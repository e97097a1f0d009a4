// Saves that a thread writes, on one rank and on ranks that are threads.
#include "causeway/train/checkpoint/background_save.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <mutex>
#include <thread>

#include "tests/fixtures/temporary_directory.h"
#include "tests/train/training_ranks.h"

namespace causeway::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using State = BackgroundSave::State;

constexpr int64_t kElements = 1000;

CheckpointState saved_state_at(int64_t step) {
  CheckpointState state;
  state.step = step;
  state.model = {{"family", "test"}};
  return state;
}

State poll_until_done(BackgroundSave& save) {
  State state = State::kUnderWay;
  for (int i = 0; i < 20000 && state == State::kUnderWay; ++i) {
    state = save.poll();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return state;
}

// A tensor of which each rank has an equal part.
CheckpointWriter writer_of(const std::filesystem::path& run, int64_t step, const Ranks& ranks, ChunkSource source) {
  CheckpointWriter writer(run, saved_state_at(step), {.chunk_bytes = 512}, &ranks);
  const int64_t each = kElements / ranks.count();
  writer.add_part({"weight", DType::kF32, {kElements}}, {{each * ranks.rank()}, {each}}, std::move(source));
  return writer;
}

void zeros(uint64_t, std::span<std::byte> bytes) { std::ranges::fill(bytes, std::byte{0}); }

TEST(BackgroundSaveTest, ExistsOnlyWhenEveryRankHasWritten) {
  for (const int64_t count : {1, 4}) {
    const TemporaryDirectory run;
    std::promise<void> gate;
    const std::shared_future<void> opened = gate.get_future().share();
    on_ranks({.fsdp = count}, [&] {
      const Ranks ranks(*Context::current());
      const bool last = ranks.rank() == ranks.count() - 1;
      BackgroundSave save(ranks, writer_of(run.path(), 5, ranks, [&](uint64_t at, std::span<std::byte> bytes) {
                            if (last) opened.wait();
                            zeros(at, bytes);
                          }));
      save.start();
      for (int i = 0; i < 20; ++i) {
        EXPECT_EQ(save.poll(), State::kUnderWay);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      EXPECT_TRUE(list_checkpoints(run.path()).empty());
      ranks.gather("");  // nobody is still looking
      if (last) gate.set_value();
      EXPECT_EQ(poll_until_done(save), State::kCommitted);
      EXPECT_TRUE(std::filesystem::exists(save.writer().directory()));
    });
    ASSERT_EQ(list_checkpoints(run.path()).size(), 1u);
    EXPECT_TRUE(verify_checkpoint(list_checkpoints(run.path()).front().directory).empty());
  }
}

TEST(BackgroundSaveTest, WhatOneRankCannotWriteFailsOnAll) {
  const TemporaryDirectory run;
  std::mutex mutex;
  std::vector<std::string> messages;
  on_ranks({.fsdp = 2}, [&] {
    const Ranks ranks(*Context::current());
    for (const int64_t step : {1, 2, 3}) {
      BackgroundSave save(ranks, writer_of(run.path(), step, ranks, [&](uint64_t at, std::span<std::byte> bytes) {
                            if (step == 2 && ranks.rank() == 1)
                              throw Error(ErrorKind::kIo, "the disk is gone", "somewhere", "Mend it.");
                            zeros(at, bytes);
                          }));
      save.start();
      const State state = step == 1 ? save.wait() : poll_until_done(save);
      EXPECT_EQ(state, step == 2 ? State::kFailed : State::kCommitted) << step;
      if (!save.failure()) continue;
      const std::lock_guard lock(mutex);
      messages.emplace_back(save.failure()->what());
    }
  });
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0], messages[1]);
  for (const char* part : {"somewhere", "the checkpoint of step 2 was not saved: the disk is gone", "Mend it.",
                           "step-00000001, is untouched"})
    EXPECT_THAT(messages[0], HasSubstr(part));
  std::vector<int64_t> steps;
  for (const CheckpointEntry& entry : list_checkpoints(run.path())) steps.push_back(entry.step);
  EXPECT_THAT(steps, ElementsAre(1, 3));
  // Nothing is left of the one that failed.
  for (const auto& entry : std::filesystem::directory_iterator(run.path() / "checkpoints"))
    EXPECT_TRUE(entry.path().filename().string().starts_with("step-")) << entry.path();
}

TEST(BackgroundSaveTest, GivenUpItLeavesWhatWasCommittedBefore) {
  const TemporaryDirectory run;
  const Ranks ranks(*Context::current());
  for (const int64_t step : {1, 2}) {
    std::promise<void> begun;
    std::atomic<bool> first = true;
    BackgroundSave save(ranks, writer_of(run.path(), step, ranks, [&](uint64_t at, std::span<std::byte> bytes) {
                          if (first.exchange(false)) begun.set_value();
                          if (step == 2) std::this_thread::sleep_for(std::chrono::milliseconds(20));
                          zeros(at, bytes);
                        }));
    save.start();
    if (step == 1) {
      EXPECT_EQ(save.wait(), State::kCommitted);
    } else {
      begun.get_future().wait();  // then it is given up
    }
  }
  const auto entries = list_checkpoints(run.path());
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries.front().step, 1);
  EXPECT_TRUE(verify_checkpoint(entries.front().directory).empty());
}

}  // namespace
}  // namespace causeway::train
