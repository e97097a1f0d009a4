// What is said of the ranks' times, of numbers that nobody has to measure.
#include "causeway/train/observation/rank_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "causeway/train/observation/slow_rank.h"
#include "tests/train/training_ranks.h"

namespace causeway::train {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(RankTimes, AreMeansOverStepsAndOverThoseThatWereMeasured) {
  RankTimesSum sum;
  sum.add(2, 0.5, WorkSeconds{.compute = 1, .communication = 0.75, .exposed = 0.25});
  sum.add(4, 0, std::nullopt);
  const RankTimes times = sum.take();
  EXPECT_DOUBLE_EQ(times.step, 3);
  EXPECT_DOUBLE_EQ(times.data_wait, 0.25);
  EXPECT_EQ(times.compute, 1);
  EXPECT_EQ(times.exposed_communication, 0.25);
  EXPECT_EQ(times.own_work(), 1.25);
  sum.add(1, 0, std::nullopt);
  const RankTimes next = sum.take();
  EXPECT_DOUBLE_EQ(next.step, 1);
  EXPECT_FALSE(next.compute || next.exposed_communication || next.own_work());
}

TEST(RankTimes, AreSummedUpOverRanks) {
  const std::vector<RankTimes> times = {
      {3, 0, 2, 1, 500}, {3.5, 1, 2, 0.25, 600}, {3.25, 0.5, 1, 1.5, 900}, {3, 0, 1.5, 1.25, 400}};
  const nlohmann::json brief = rank_times_json(times, false);
  EXPECT_EQ(brief["count"], 4);
  EXPECT_EQ(brief["slowest"], 1);
  EXPECT_EQ(brief["step_seconds"], nlohmann::json({{"min", 3}, {"median", 3.125}, {"max", 3.5}, {"max_rank", 1}}));
  EXPECT_EQ(brief["compute_seconds"], nlohmann::json({{"min", 1}, {"median", 1.75}, {"max", 2}, {"max_rank", 0}}));
  EXPECT_EQ(brief["exposed_communication_seconds"]["max_rank"], 2);
  EXPECT_EQ(brief["memory_bytes"], nlohmann::json({{"min", 400}, {"median", 550}, {"max", 900}, {"max_rank", 2}}));
  EXPECT_FALSE(brief.contains("each"));
  EXPECT_EQ(rank_times_json(times, true)["each"]["data_wait_seconds"], nlohmann::json({0, 1, 0.5, 0}));
  // One rank has not measured: nothing is said of all.
  const nlohmann::json partly = rank_times_json(std::vector<RankTimes>{times[0], {3, 0, {}, {}}}, true);
  EXPECT_FALSE(partly.contains("compute_seconds") || partly.contains("slowest"));
  EXPECT_TRUE(partly.contains("step_seconds"));
}

TEST(RankTimes, TravelBetweenRanks) {
  on_ranks({.dp = 3}, [&] {
    const Ranks ranks(*Context::current());
    RankTimes own{1.0 + ranks.rank(), 0.5, {}, {}, 70u + static_cast<uint64_t>(ranks.rank())};
    if (ranks.rank() == 2) own.compute = 7;
    const std::vector<RankTimes> all = gather_rank_times(ranks, own);
    ASSERT_EQ(all.size(), 3u);
    EXPECT_EQ(all[1].step, 2);
    EXPECT_FALSE(all[1].compute.has_value());
    EXPECT_EQ(all[2].compute, 7);
    EXPECT_EQ(all[2].memory_bytes, 72);
  });
}

// Ranks whose kernels take so long, in steps that take what the slowest one takes.
std::vector<RankTimes> computing(const std::vector<double>& seconds) {
  std::vector<RankTimes> times;
  const double slowest = *std::max_element(seconds.begin(), seconds.end());
  for (const double own : seconds) times.push_back({slowest, 0, own, slowest - own});
  return times;
}

TEST(SlowRank, IsNamedOnceWhenItStaysSlow) {
  SlowRankRule rule;
  const std::vector<RankTimes> slow = computing({1, 1.1, 1.4, 0.9});
  EXPECT_FALSE(rule.heed(slow, 100));
  EXPECT_FALSE(rule.heed(slow, 110));
  EXPECT_FALSE(rule.heed(slow, 120));  // three records, and not yet half a minute
  const std::optional<SlowRank> found = rule.heed(slow, 131);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 2);
  EXPECT_THAT(found->text(), AllOf(HasSubstr("rank 2 has been slower than the others for 31 seconds"),
                                   HasSubstr("its own work takes 1.4 s a step"), HasSubstr("others 1 s (median)")));
  EXPECT_FALSE(rule.heed(slow, 200));
  // It recovers, and is slow again.
  EXPECT_FALSE(rule.heed(computing({1, 1.1, 1.2, 0.9}), 210));
  EXPECT_FALSE(rule.heed(slow, 220));
  EXPECT_FALSE(rule.heed(slow, 240));
  EXPECT_TRUE(rule.heed(slow, 260));
}

TEST(SlowRank, IsNotWhoIsSlowNowAndThen) {
  SlowRankRule rule;
  double now = 0;
  // Each of the ranks in turn; then two records far apart, which say little.
  for (const int rank : {0, 0, 1, 1, 2, 2, 0, 0, 1, 1}) {
    std::vector<double> seconds(3, 1.0);
    seconds[static_cast<size_t>(rank)] = 2;
    EXPECT_FALSE(rule.heed(computing(seconds), now += 20));
  }
  SlowRankRule seldom;
  EXPECT_FALSE(seldom.heed(computing({1, 2}), 0));
  EXPECT_FALSE(seldom.heed(computing({1, 2}), 1000));
}

TEST(SlowRank, OfTwoIsFoundAndDataCount) {
  SlowRankRule rule;
  std::vector<RankTimes> times = computing({1, 1});
  times[1].data_wait = 0.5;
  const std::vector<RankTimes> unmeasured = {{1.5, 0, {}, {}}, {1.5, 0.5, {}, {}}};
  EXPECT_FALSE(rule.heed(times, 0));
  EXPECT_FALSE(rule.heed(unmeasured, 5));  // passed over
  EXPECT_FALSE(rule.heed(times, 20));
  const std::optional<SlowRank> found = rule.heed(times, 40);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 1);
  EXPECT_THAT(found->text(), HasSubstr("0.5 s waiting for data"));
  EXPECT_FALSE(SlowRankRule().heed(computing({5}), 100));
}

}  // namespace
}  // namespace causeway::train
