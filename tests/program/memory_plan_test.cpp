// Memory is shared exactly where the order over queues lets it.
#include "causeway/program/memory_plan.h"

#include <gtest/gtest.h>

#include <random>

namespace causeway::program {
namespace {

Instruction work(DeviceQueue queue, Signal sets = kNoSignal) { return {queue, Copy{}, sets}; }
Instruction wait(DeviceQueue queue, Signal signal) { return {queue, Wait{signal}}; }

TEST(InstructionOrder, FollowsQueuesAndSignals) {
  const std::vector<Instruction> list = {work(0, 1), work(0), wait(1, 1), work(1, 2),
                                         work(0),    work(2), wait(0, 2), work(0)};
  const InstructionOrder order(list);
  EXPECT_EQ(order.queues(), 3);
  EXPECT_TRUE(order.before(0, 1));
  EXPECT_FALSE(order.before(1, 0));
  EXPECT_FALSE(order.before(1, 1));
  // Across queues: by a signal and its wait alone.
  EXPECT_TRUE(order.before(0, 3));
  EXPECT_FALSE(order.before(1, 3));
  EXPECT_FALSE(order.before(3, 4));
  EXPECT_FALSE(order.before(4, 3));
  EXPECT_TRUE(order.before(3, 7));
  // What waits for nobody is ordered with nobody, the program's begin and end included.
  EXPECT_FALSE(order.before(InstructionOrder::kStart, 5));
  EXPECT_FALSE(order.before(5, order.end()));
  EXPECT_TRUE(order.before(InstructionOrder::kStart, 3));
  EXPECT_TRUE(order.before(3, order.end()));
  EXPECT_FALSE(order.before(order.end(), order.end()));
}

int64_t plan(const std::vector<Instruction>& list, std::vector<PlannedBuffer>& buffers) {
  return plan_memory(buffers, InstructionOrder(list));
}

TEST(MemoryPlan, BuffersOfOneQueueShareWhereOneEndsBeforeTheOtherBegins) {
  const std::vector<Instruction> list(4, work(0));
  std::vector<PlannedBuffer> buffers = {{100, {0, 1}}, {100, {2, 3}}, {50, {1, 2}}};
  EXPECT_EQ(plan(list, buffers), 192);
  EXPECT_EQ(buffers[0].offset, 0);
  EXPECT_EQ(buffers[1].offset, 0);
  EXPECT_EQ(buffers[2].offset, 128);
}

TEST(MemoryPlan, BuffersOfTwoQueuesShareOnlyBehindAWait) {
  const auto total = [](bool waits) {
    std::vector<Instruction> list = {work(0, 1), wait(1, 1), work(1, 2)};
    list.push_back(waits ? wait(0, 2) : work(0));
    list.push_back(work(0));
    // Written by the first and read beside it by the other queue; another one written after that.
    std::vector<PlannedBuffer> buffers = {{64, {0, 2}}, {64, {4}}};
    return plan(list, buffers);
  };
  EXPECT_EQ(total(true), 64);
  EXPECT_EQ(total(false), 128);
}

// Whatever the lists: buffers that share bytes are used one after the other.
TEST(MemoryPlan, NeverSharesWhatMayBeUsedAtTheSameTime) {
  std::mt19937 random(5);
  const auto draw = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
  int shared = 0;
  for (int round = 0; round < 60; ++round) {
    std::vector<Instruction> list;
    int signals = 1;
    for (int i = 0; i < 40; ++i) {
      if (signals > 1 && draw(3) == 0) {
        list.push_back(wait(draw(3), draw(signals)));
      } else {
        list.push_back(work(draw(3), draw(2) == 0 ? signals++ : kNoSignal));
      }
    }
    const InstructionOrder order(list);
    std::vector<PlannedBuffer> buffers;
    for (int b = 0; b < 20; ++b) {
      const int first = draw(40), last = std::min(39, first + draw(8));
      buffers.push_back({1 + draw(300), {first, last}});
    }
    const int64_t total = plan_memory(buffers, order);
    for (size_t a = 0; a < buffers.size(); ++a) {
      EXPECT_LE(buffers[a].offset + buffers[a].bytes, total);
      EXPECT_EQ(buffers[a].offset % kArenaAlignment, 0);
      for (size_t b = 0; b < a; ++b) {
        const bool overlap = buffers[a].offset < buffers[b].offset + buffers[b].bytes &&
                             buffers[b].offset < buffers[a].offset + buffers[a].bytes;
        if (!overlap) continue;
        ++shared;
        const auto all_before = [&](const PlannedBuffer& x, const PlannedBuffer& y) {
          for (const int i : x.uses)
            for (const int j : y.uses)
              if (!order.before(i, j)) return false;
          return true;
        };
        EXPECT_TRUE(all_before(buffers[a], buffers[b]) || all_before(buffers[b], buffers[a])) << "round " << round;
      }
    }
  }
  EXPECT_GT(shared, 100);
}

}  // namespace
}  // namespace causeway::program
