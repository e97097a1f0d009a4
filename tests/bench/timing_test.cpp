#include "causeway/bench/timing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "causeway/device/cpu/cpu_device.h"

namespace causeway::bench {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

// What another process decides goes, whatever time has passed here.
TEST(TimingTogetherTest, DecisionsAreThoseAgreedOn) {
  CpuDevice device(1);
  int executions = 0, lined_up = 0;
  const TimedWork work = [&] { ++executions; };
  TimingOptions options;
  options.samples = 40;
  options.rounds = 4;
  options.warm_up_seconds = 1000;
  options.limit_seconds = 10;
  // In this order: the warm-up goes on, goes on, ends; an execution takes 1 s, so that 10 samples are wanted; two more
  // rounds may begin; time is over.
  std::vector<double> answers = {0, 999, 1000, 1, 5, 10, 10.5};
  const TimingTogether together = {[&](double) {
                                     EXPECT_FALSE(answers.empty());
                                     const double answer = answers.front();
                                     answers.erase(answers.begin());
                                     return answer;
                                   },
                                   [&] { ++lined_up; }};
  const std::vector<TimedRounds> timed = time_alternately(device, std::span(&work, 1), options, {}, together);
  EXPECT_THAT(answers, SizeIs(0));
  ASSERT_THAT(timed, SizeIs(1));
  EXPECT_THAT(timed[0].seconds, ElementsAre(SizeIs(2), SizeIs(3), SizeIs(2)));
  EXPECT_EQ(lined_up, 2 + 7) << "before each batch of the warm-up, and before each sample";
  // One, batches of one and two; each round one that does not count.
  EXPECT_EQ(executions, 1 + 1 + 2 + 7 + 3);
}

}  // namespace
}  // namespace causeway::bench
