// Orders of a pipeline's stages: everything is done once, nobody waits for ever, and stages wait as little as the
// papers say.
#include "causeway/train/step/stage_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace causeway::train {
namespace {

struct Case {
  PipelineSchedule schedule;
  PipelineShape shape;
};

std::vector<Case> schedule_cases() {
  std::vector<Case> all;
  for (const int64_t stages : {2, 3, 4, 8}) {
    for (const int64_t batches : {1, 2, 3, 4, 5, 8, 12, 16})
      for (const auto schedule : {PipelineSchedule::kOneForwardOneBackward, PipelineSchedule::kZeroBubble})
        all.push_back({schedule, {stages, 1, batches}});
    for (const int64_t groups : {1, 2, 3})
      for (const int64_t chunks : {2, 3})
        all.push_back({PipelineSchedule::kInterleaved, {stages, chunks, groups * stages}});
  }
  return all;
}

std::string text(const Case& c) {
  return std::string(name_of(c.schedule)) + " of " + std::to_string(c.shape.stages) + " stages, " +
         std::to_string(c.shape.chunks) + " chunks, " + std::to_string(c.shape.micro_batches) + " micro-batches";
}

std::vector<std::vector<StageAction>> schedules(const Case& c) {
  std::vector<std::vector<StageAction>> all;
  for (int64_t stage = 0; stage < c.shape.stages; ++stage) all.push_back(stage_schedule(c.schedule, c.shape, stage));
  return all;
}

bool computes(StageWork work) {
  return work == StageWork::kForward || work == StageWork::kBackward || work == StageWork::kInputGradient ||
         work == StageWork::kWeightGradient;
}

TEST(StageSchedule, DoesEverythingOnceAndInOrder) {
  for (const Case& c : schedule_cases()) {
    SCOPED_TRACE(text(c));
    const int64_t last_piece = c.shape.stages * c.shape.chunks - 1;
    const auto all = schedules(c);
    for (size_t stage = 0; stage < all.size(); ++stage) {
      std::map<std::pair<int64_t, int64_t>, std::vector<StageWork>> works;  // by piece and micro-batch
      for (const StageAction& action : all[stage]) {
        EXPECT_EQ(action.piece % c.shape.stages, static_cast<int64_t>(stage));
        works[{action.piece, action.micro_batch}].push_back(action.work);
      }
      EXPECT_EQ(works.size(), static_cast<size_t>(c.shape.chunks * c.shape.micro_batches));
      for (const auto& [key, list] : works) {
        const int64_t piece = key.first;
        std::vector<StageWork> expected;
        if (piece > 0) expected.push_back(StageWork::kReceiveStream);
        expected.push_back(StageWork::kForward);
        if (piece < last_piece) expected.push_back(StageWork::kSendStream);
        if (piece < last_piece) expected.push_back(StageWork::kReceiveGradient);
        const bool split = c.schedule == PipelineSchedule::kZeroBubble;
        expected.push_back(split ? StageWork::kInputGradient : StageWork::kBackward);
        if (piece > 0) expected.push_back(StageWork::kSendGradient);
        if (split) expected.push_back(StageWork::kWeightGradient);
        EXPECT_EQ(list, expected) << "piece " << piece << ", micro-batch " << key.second;
      }
    }
  }
}

// Who sends waits for nobody; or both ends of a message wait for each other, each stream of each rank has a queue for
// what it sends and one for what it receives, and compute goes on until two sends behind. Messages are under way once
// the compute before them is done, those received from one piece of work earlier on.
class Simulation {
 public:
  Simulation(const Case& c, bool rendezvous) : stages_(c.shape.stages), rendezvous_(rendezvous), lists_(schedules(c)) {}

  // Whether all stages come to their ends. Checks that both ends of a stream name the same messages in the same order.
  bool ends() {
    at_.resize(lists_.size());
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      for (size_t stage = 0; stage < lists_.size(); ++stage)
        while (at_[stage] < lists_[stage].size() && step(stage)) {
          ++at_[stage];
          goes_on = true;
        }
      if (rendezvous_ && deliver()) goes_on = true;
    }
    for (size_t stage = 0; stage < lists_.size(); ++stage)
      if (at_[stage] < lists_[stage].size()) return false;
    return true;
  }

 private:
  // What is exchanged: whether it is a gradient, the receiving piece, the micro-batch.
  using Key = std::tuple<bool, int64_t, int64_t>;
  struct End {
    int64_t from, to;
    Key key;
  };

  End end_of(const StageAction& action, int64_t stage) const {
    const bool gradient = action.work == StageWork::kSendGradient || action.work == StageWork::kReceiveGradient;
    const bool sends = action.work == StageWork::kSendStream || action.work == StageWork::kSendGradient;
    const int64_t to_piece = !sends ? action.piece : gradient ? action.piece - 1 : action.piece + 1;
    const int64_t from_piece = gradient ? to_piece + 1 : to_piece - 1;
    return {sends ? stage : from_piece % stages_, sends ? to_piece % stages_ : stage,
            Key{gradient, to_piece, action.micro_batch}};
  }

  bool step(size_t stage) {
    const StageAction& action = lists_[stage][at_[stage]];
    const auto own = static_cast<int64_t>(stage);
    if (computes(action.work)) {
      if (!rendezvous_) return true;
      // What it works on was received.
      for (const StageAction& before : lists_[stage]) {
        if (&before == &action) break;
        if (before.piece == action.piece && before.micro_batch == action.micro_batch &&
            (before.work == StageWork::kReceiveStream || before.work == StageWork::kReceiveGradient) &&
            !delivered_.contains(end_of(before, own).key))
          return false;
      }
      // Two sends behind, of each stream.
      for (const bool gradient : {false, true}) {
        const auto& queue = sending_[{own, gradient}];
        if (queue.size() > 2) return false;
      }
      return true;
    }
    const End end = end_of(action, own);
    const bool sends = end.from == own, gradient = std::get<0>(end.key);
    if (rendezvous_) {
      (sends ? sending_ : receiving_)[{own, gradient}].push_back(end);
      return true;
    }
    auto& mail = mail_[{end.from, end.to, gradient}];
    if (sends) {
      mail.push_back(end.key);
      return true;
    }
    if (mail.empty()) return false;
    EXPECT_EQ(mail.front(), end.key);
    mail.erase(mail.begin());
    return true;
  }

  // Every message whose ends are both the first of their queues.
  bool deliver() {
    bool any = false;
    for (auto& [sender, queue] : sending_) {
      while (!queue.empty()) {
        const End end = queue.front();
        auto& other = receiving_[{end.to, sender.second}];
        if (other.empty() || other.front().from != end.from) break;
        EXPECT_EQ(other.front().key, end.key);
        delivered_.insert(end.key);
        queue.erase(queue.begin());
        other.erase(other.begin());
        any = true;
      }
    }
    return any;
  }

  int64_t stages_;
  bool rendezvous_;
  std::vector<std::vector<StageAction>> lists_;
  std::vector<size_t> at_;
  std::map<std::tuple<int64_t, int64_t, bool>, std::vector<Key>> mail_;
  std::map<std::pair<int64_t, bool>, std::vector<End>> sending_, receiving_;
  std::set<Key> delivered_;
};

TEST(StageSchedule, NobodyWaitsForEver) {
  for (const Case& c : schedule_cases()) {
    EXPECT_TRUE(Simulation(c, false).ends()) << text(c) << ", with messages that are copied";
    EXPECT_TRUE(Simulation(c, true).ends()) << text(c) << ", with ends that wait for each other";
  }
}

int64_t most_kept(const std::vector<StageAction>& list) {
  int64_t kept = 0, most = 0;
  for (const StageAction& action : list) {
    if (action.work == StageWork::kForward) most = std::max(most, ++kept);
    if (action.work == StageWork::kBackward || action.work == StageWork::kWeightGradient) --kept;
  }
  EXPECT_EQ(kept, 0);
  return most;
}

TEST(StageSchedule, KeepsTheActivationsOfFewMicroBatches) {
  for (const Case& c : schedule_cases()) {
    if (c.schedule == PipelineSchedule::kInterleaved) continue;
    const auto all = schedules(c);
    for (size_t stage = 0; stage < all.size(); ++stage) {
      const auto own = static_cast<int64_t>(stage);
      const int64_t bound =
          c.schedule == PipelineSchedule::kOneForwardOneBackward ? c.shape.stages - own : c.shape.stages;
      EXPECT_LE(most_kept(all[stage]), bound) << text(c) << ", stage " << stage;
      if (c.schedule == PipelineSchedule::kOneForwardOneBackward && c.shape.micro_batches >= bound)
        EXPECT_EQ(most_kept(all[stage]), bound) << text(c) << ", stage " << stage;
    }
  }
}

TEST(StageSchedule, WaitsAsThePapersSay) {
  for (const int64_t p : {2, 3, 4, 8})
    for (const int64_t m : {p, p + 1, 2 * p, 4 * p}) {
      const double works = 3.0 * static_cast<double>(m);
      const auto waits = [&](double time) { return time / (works + time); };
      const double fill = static_cast<double>(p - 1);
      EXPECT_NEAR(bubble_share(PipelineSchedule::kOneForwardOneBackward, {p, 1, m}), waits(3 * fill), 1e-12)
          << p << " " << m;
      EXPECT_NEAR(bubble_share(PipelineSchedule::kZeroBubble, {p, 1, m}), waits(fill), 1e-12) << p << " " << m;
      if (m % p != 0) continue;
      for (const int64_t v : {2, 3})
        EXPECT_NEAR(bubble_share(PipelineSchedule::kInterleaved, {p, v, m}), waits(3 * fill / static_cast<double>(v)),
                    1e-12)
            << p << " " << m << " " << v;
    }
  EXPECT_EQ(bubble_share(PipelineSchedule::kOneForwardOneBackward, {1, 1, 4}), 0);
}

}  // namespace
}  // namespace causeway::train
