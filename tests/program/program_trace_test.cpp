#include "causeway/program/program_trace.h"

#include <gtest/gtest.h>

namespace causeway::program {
namespace {

// Kernels on one queue, collectives on another one, at these times.
WorkSeconds seconds_of(const std::vector<std::pair<double, double>>& kernels,
                       const std::vector<std::pair<double, double>>& collectives) {
  LoweredProgram program;
  std::vector<InstructionTime> times;
  const auto add = [&](DeviceQueue queue, auto work, const auto& of_queue) {
    for (const auto& [start, end] : of_queue) {
      times.push_back({static_cast<int>(program.instructions.size()), start, end});
      program.instructions.push_back({queue, work, kNoSignal});
    }
  };
  add(kComputeQueue, Launch{}, kernels);
  add(kCommunicationQueue, Collectives{}, collectives);
  return work_seconds(program, times);
}

TEST(WorkSeconds, CommunicationIsExposedWhereNothingElseIsAtWork) {
  const WorkSeconds apart = seconds_of({{0, 2}, {5, 6}}, {{2, 5}});
  EXPECT_DOUBLE_EQ(apart.compute, 3);
  EXPECT_DOUBLE_EQ(apart.communication, 3);
  EXPECT_DOUBLE_EQ(apart.exposed, 3);
  const WorkSeconds hidden = seconds_of({{10, 14}, {14, 20}}, {{11, 13}, {13, 19}});
  EXPECT_DOUBLE_EQ(hidden.compute, 10);
  EXPECT_DOUBLE_EQ(hidden.communication, 8);
  EXPECT_DOUBLE_EQ(hidden.exposed, 0);
  const WorkSeconds partly = seconds_of({{0, 4}, {7, 8}}, {{3, 6}});
  EXPECT_DOUBLE_EQ(partly.compute, 5);
  EXPECT_DOUBLE_EQ(partly.communication, 3);
  EXPECT_DOUBLE_EQ(partly.exposed, 2);
  const WorkSeconds none = seconds_of({}, {});
  EXPECT_EQ(none.compute + none.communication + none.exposed, 0);
}

}  // namespace
}  // namespace causeway::program
