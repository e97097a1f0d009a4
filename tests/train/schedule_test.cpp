#include "causeway/train/recipe/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "causeway/base/error.h"

namespace causeway::train {
namespace {

using ::testing::HasSubstr;

std::string message_of_schedule(const ScheduleConfig& config) {
  try {
    const Schedule schedule(config);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return error.what();
  }
  return "no error";
}

TEST(Schedule, WarmUpIsLinearAndDoesNotStartAtZero) {
  for (const ScheduleKind kind :
       {ScheduleKind::kConstant, ScheduleKind::kLinear, ScheduleKind::kCosine, ScheduleKind::kWsd}) {
    const Schedule schedule({kind, 4, 100, kind == ScheduleKind::kWsd ? 10 : 0, 0.1});
    EXPECT_EQ(schedule.factor(0), 0.25);
    EXPECT_EQ(schedule.factor(1), 0.5);
    EXPECT_EQ(schedule.factor(3), 1.0);
    EXPECT_EQ(schedule.factor(4), 1.0);
  }
}

TEST(Schedule, Constant) {
  const Schedule schedule({ScheduleKind::kConstant});
  EXPECT_EQ(schedule.factor(0), 1);
  EXPECT_EQ(schedule.factor(1'000'000'000'000), 1);
}

TEST(Schedule, Linear) {
  const Schedule schedule({ScheduleKind::kLinear, 0, 10, 0, 0.2});
  EXPECT_EQ(schedule.factor(0), 1);
  EXPECT_DOUBLE_EQ(schedule.factor(5), 0.6);
  EXPECT_DOUBLE_EQ(schedule.factor(9), 0.28);
  EXPECT_EQ(schedule.factor(10), 0.2);
  EXPECT_EQ(schedule.factor(11), 0.2);
}

TEST(Schedule, Cosine) {
  const Schedule schedule({ScheduleKind::kCosine, 10, 110, 0, 0.1});
  EXPECT_EQ(schedule.factor(10), 1);
  EXPECT_DOUBLE_EQ(schedule.factor(35), 0.1 + 0.9 * 0.5 * (1 + std::sqrt(0.5)));
  EXPECT_DOUBLE_EQ(schedule.factor(60), 0.55);
  EXPECT_EQ(schedule.factor(110), 0.1);
  EXPECT_EQ(schedule.factor(500), 0.1);
  for (int64_t step = 10; step < 110; ++step) EXPECT_GT(schedule.factor(step), schedule.factor(step + 1));
}

// As docs/recipes.md says it: the last of n steps of decay is one n-th short of the end, as with the schedules of
// PyTorch and transformers.
TEST(Schedule, TheLastStepIsOneShortOfTheFinalFactor) {
  const double final_factor = 0.2;
  EXPECT_DOUBLE_EQ(Schedule({ScheduleKind::kLinear, 10, 110, 0, final_factor}).factor(109), 0.2 + 0.8 / 100);
  EXPECT_DOUBLE_EQ(Schedule({ScheduleKind::kWsd, 10, 110, 20, final_factor}).factor(109), 0.2 + 0.8 / 20);
  EXPECT_DOUBLE_EQ(Schedule({ScheduleKind::kCosine, 10, 110, 0, final_factor}).factor(109),
                   0.2 + 0.8 * 0.5 * (1 + std::cos(std::numbers::pi * 0.99)));
  // A run of one step takes it at the peak.
  EXPECT_EQ(Schedule({ScheduleKind::kCosine, 0, 1, 0, 0}).factor(0), 1);
}

TEST(Schedule, WarmUpStableDecay) {
  const Schedule schedule({ScheduleKind::kWsd, 10, 100, 20, 0});
  EXPECT_EQ(schedule.factor(10), 1);
  EXPECT_EQ(schedule.factor(80), 1);
  EXPECT_DOUBLE_EQ(schedule.factor(90), 0.5);
  EXPECT_DOUBLE_EQ(schedule.factor(99), 0.05);
  EXPECT_EQ(schedule.factor(100), 0);
}

TEST(Schedule, WarmUpMayTakeTheWholeRun) {
  const Schedule schedule({ScheduleKind::kCosine, 10, 10, 0, 0.1});
  EXPECT_EQ(schedule.factor(9), 1);
  EXPECT_EQ(schedule.factor(10), 0.1);
}

TEST(Schedule, ErrorsNameTheField) {
  EXPECT_THAT(message_of_schedule({ScheduleKind::kCosine, -1, 10}),
              HasSubstr("schedule.warmup_steps: -1 steps of warm-up"));
  EXPECT_THAT(message_of_schedule({ScheduleKind::kCosine, 0, 0}),
              HasSubstr("schedule.total_steps: 0 steps are too few"));
  EXPECT_THAT(message_of_schedule({ScheduleKind::kLinear, 11, 10}),
              HasSubstr("schedule.warmup_steps: a warm-up of 11 steps does not fit the run's 10"));
  EXPECT_THAT(message_of_schedule({ScheduleKind::kLinear, 0, 10, 0, 1.5}),
              HasSubstr("schedule.final_factor: 1.5 is not a fraction"));
  EXPECT_THAT(message_of_schedule({ScheduleKind::kLinear, 0, 10, 0, std::nan("")}),
              HasSubstr("schedule.final_factor: nan"));
  EXPECT_THAT(message_of_schedule({ScheduleKind::kLinear, 0, 10, 5}),
              HasSubstr("schedule.decay_steps: the linear schedule has no decay_steps"));
  EXPECT_THAT(message_of_schedule({ScheduleKind::kWsd, 0, 10, 0}), HasSubstr("schedule.decay_steps: 0 steps of decay"));
  EXPECT_THAT(message_of_schedule({ScheduleKind::kWsd, 6, 10, 5}),
              HasSubstr("a warm-up of 6 and a decay of 5 steps do not fit the run's 10"));
  EXPECT_EQ(message_of_schedule({ScheduleKind::kWsd, 5, 10, 5}), "no error");
  EXPECT_THROW(Schedule({ScheduleKind::kConstant}).factor(-1), InternalError);
}

}  // namespace
}  // namespace causeway::train
