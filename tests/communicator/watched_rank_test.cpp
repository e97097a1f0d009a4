#include "causeway/communicator/watched_rank.h"

#include <gtest/gtest.h>

namespace causeway::communicator {
namespace {

using Clock = StandstillRule::Clock;
using std::chrono::seconds;

WatchedRank at_step(int64_t step, int64_t collectives, const std::string& phase = std::string(kStepPhase)) {
  WatchedRank rank;
  rank.host = "node";
  rank.process = 7;
  rank.position.step = step;
  rank.position.collectives = collectives;
  rank.position.phase = phase;
  rank.position.marks = step + collectives;
  return rank;
}

// Has ended two steps, in no time worth mentioning.
void take_steps(RankProgress& progress) {
  for (int64_t step = 1; step <= 3; ++step) progress.enter(step, kStepPhase);
}

TEST(StandstillRule, NamesTheRankThatHasComeLeastFar) {
  RankProgress own;
  take_steps(own);
  const std::vector<WatchedRank> ranks = {at_step(5, 40), at_step(5, 38), at_step(5, 39)};
  StandstillRule rule(seconds(8));
  const Clock::time_point start = Clock::now();
  rule.restart(start);
  EXPECT_FALSE(rule.look(ranks, own, start));
  EXPECT_FALSE(rule.look(ranks, own, start + seconds(7)));
  const auto found = rule.look(ranks, own, start + seconds(9));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 1);
  EXPECT_EQ(found->lasts, seconds(9));
}

TEST(StandstillRule, IsNoneWhereARankGetsOnOrIsNotWithinAStep) {
  RankProgress own;
  take_steps(own);
  StandstillRule rule(seconds(8));
  const Clock::time_point start = Clock::now();
  rule.restart(start);
  EXPECT_FALSE(rule.look({at_step(5, 40), at_step(5, 38)}, own, start + seconds(1)));
  EXPECT_FALSE(rule.look({at_step(5, 40), at_step(5, 39)}, own, start + seconds(9)));
  EXPECT_FALSE(rule.look({at_step(5, 40), at_step(5, 39, "checkpoint")}, own, start + seconds(20)));
  rule.restart(start + seconds(30));
  EXPECT_FALSE(rule.look({at_step(5, 40), at_step(5, 39)}, own, start + seconds(37)));
  // Before the second step has ended kernels may be compiled.
  const RankProgress fresh;
  EXPECT_FALSE(rule.look({at_step(5, 40), at_step(5, 39)}, fresh, start + seconds(60)));
  EXPECT_TRUE(rule.look({at_step(5, 40), at_step(5, 39)}, own, start + seconds(60)));
}

TEST(DescribeFailure, SaysWhatItsSpeakerKnows) {
  const std::vector<WatchedRank> ranks = {at_step(5, 40), at_step(0, 0, "start"), at_step(5, 39)};
  const std::string of_first = describe_failure(ranks, 0, 2, "it is gone", "Go on.");
  EXPECT_NE(of_first.find("rank 2 of 3 (host node, process 7) failed at step 5, phase step: it is gone"),
            std::string::npos)
      << of_first;
  EXPECT_NE(of_first.find("rank 1 before the first step, phase start, no collective yet"), std::string::npos)
      << of_first;
  EXPECT_TRUE(of_first.ends_with("All ranks were stopped. Go on.")) << of_first;
  const std::string of_other = describe_failure(ranks, 2, 0, "it is gone", "");
  EXPECT_NE(of_other.find("as far as the one that says this knows"), std::string::npos) << of_other;
  EXPECT_EQ(of_other.find("    rank 1 "), std::string::npos) << of_other;
}

}  // namespace
}  // namespace causeway::communicator
