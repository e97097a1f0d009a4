#include "causeway/plan/time_model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "causeway/base/error.h"

namespace causeway::plan {
namespace {

// Round figures, so that seconds can be worked out by hand.
Machine round_machine() {
  Machine machine;
  machine.name = "round";
  machine.devices_per_node = 4;
  machine.memory_bytes_per_second = 1e12;
  machine.link_bytes_per_second = 1e11;
  machine.network_bytes_per_second = 1e10;
  machine.peak_flops = {{"bf16", 1e15}};
  machine.constants = {.gemm_fraction = 0.5,
                       .gemm_half = 1000,
                       .attention_fraction = 0.25,
                       .memory_fraction = 0.5,
                       .launch_seconds = 1e-5,
                       .link_fraction = 0.5,
                       .network_fraction = 0.5,
                       .contention = 0.1,
                       .straggle = 0.01};
  return machine;
}

Work product(double m, double n, double k) {
  Work work;
  work.kind = WorkKind::kGemm;
  work.m = m, work.n = n, work.k = k;
  work.flops = 2 * m * n * k;
  return work;
}

Work memory(double bytes) {
  Work work;
  work.bytes = bytes;
  return work;
}

Work collective(WorkKind kind, double bytes, int64_t ranks, int64_t ranks_in_node) {
  Work work;
  work.kind = kind;
  work.bytes = bytes;
  work.ranks = ranks;
  work.ranks_in_node = ranks_in_node;
  return work;
}

constexpr double kClose = 1e-12;

TEST(TimeModel, SidesOfHalfLengthHalveTheRateEach) {
  const Machine machine = round_machine();
  // 2e9 FLOPs at 1e15 * 0.5 / 8.
  EXPECT_NEAR(seconds(product(1000, 1000, 1000), machine), 1e-5 + 2e9 / 6.25e13, kClose);
  // A side three times as long as the half: three quarters of the rate.
  EXPECT_NEAR(seconds(product(3000, 3000, 3000), machine), 1e-5 + 5.4e10 / (5e14 * 27 / 64), kClose);
}

TEST(TimeModel, HeadsArePaddedToPowersOfTwo) {
  Work attention;
  attention.kind = WorkKind::kAttention;
  attention.flops = 2.5e9;
  attention.head_dim = 128;
  EXPECT_NEAR(seconds(attention, round_machine()), 1e-5 + 1e-5, kClose);
  attention.head_dim = 80;
  EXPECT_NEAR(seconds(attention, round_machine()), 1e-5 + 1.6e-5, kClose);
}

TEST(TimeModel, MemoryTakesItsBytes) { EXPECT_NEAR(seconds(memory(5e8), round_machine()), 1e-5 + 1e-3, kClose); }

TEST(TimeModel, CollectivesMoveAllButTheirOwnPart) {
  const Machine machine = round_machine();
  // Three hops of 1.5 us; 3/4 of 1e9 bytes at 5e10 a second.
  EXPECT_NEAR(seconds(collective(WorkKind::kAllGather, 1e9, 4, 4), machine), 4.5e-6 + 0.015, kClose);
  EXPECT_NEAR(seconds(collective(WorkKind::kReduceScatter, 1e9, 4, 4), machine), 4.5e-6 + 0.015, kClose);
  EXPECT_NEAR(seconds(collective(WorkKind::kAllReduce, 1e9, 4, 4), machine), 4.5e-6 + 0.030, kClose);
  EXPECT_EQ(seconds(collective(WorkKind::kAllReduce, 1e9, 1, 1), machine), 0);
}

TEST(TimeModel, BetweenNodesARingHasTheNetworkOfAllItsRanks) {
  const Machine machine = round_machine();
  // Two ranks in each of four nodes: 2 * 5e9 bytes a second; one hop in the node, two doublings of nodes of 4 us.
  EXPECT_NEAR(seconds(collective(WorkKind::kAllGather, 8e8, 8, 2), machine), 1.5e-6 + 8e-6 + 0.07, kClose);
  // Where the network is faster than the links, the links decide.
  Machine fast = machine;
  fast.network_bytes_per_second = 1e12;
  EXPECT_NEAR(seconds(collective(WorkKind::kAllGather, 8e8, 8, 2), fast), 1.5e-6 + 8e-6 + 0.014, kClose);
}

TEST(TimeModel, NamesTheGemmsThatHaveNoPeak) {
  Work work = product(1000, 1000, 1000);
  work.operand = "fp8";
  try {
    seconds(work, round_machine());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
    EXPECT_NE(error.message().find("no peak of fp8 GEMMs"), std::string::npos) << error.message();
  }
}

TEST(TimeModel, QueuesRunBesideOneAnother) {
  Machine machine = round_machine();
  machine.constants.launch_seconds = 0;
  machine.constants.contention = 0;
  // Kernels of 1, 2 and 3 ms; a gather of 1.5 ms (4.5 us of latency) that the last waits for.
  std::vector<Work> work = {memory(5e8), collective(WorkKind::kAllGather, 1e8, 4, 4), memory(1e9), memory(1.5e9)};
  work[1].queue = kBesideCompute;
  work[3].after = {1};
  EXPECT_NEAR(run_queues(work, machine).seconds, 6e-3, kClose);
  // In the compute queue it adds up.
  work[1].queue = kComputeWork;
  EXPECT_NEAR(run_queues(work, machine).seconds, 7.5e-3 + 4.5e-6, kClose);
  EXPECT_NEAR(run_queues(work, machine).exposed_seconds(), 1.5e-3 + 4.5e-6, kClose);
}

TEST(TimeModel, WhoWaitsIsExposedAndWhoSharesIsSlowed) {
  Machine machine = round_machine();
  machine.constants.launch_seconds = 0;
  std::vector<Work> work = {collective(WorkKind::kAllGather, 2e8, 4, 4), memory(5e8), memory(5e8)};
  work[0].queue = kBesideCompute;
  work[2].after = {0};
  const double gather = 3e-3 + 4.5e-6;
  const StepTime time = run_queues(work, machine);
  // The first kernel shares its millisecond, the second begins when the gather has ended and is not slowed.
  EXPECT_NEAR(time.compute_seconds, 1e-3 * 1.1 + 1e-3 + std::max(0.0, gather - 1e-3 - (gather - 1.1e-3)) * 0.1, 1e-9);
  EXPECT_NEAR(time.seconds, gather + time.compute_seconds - 1.1e-3, kClose);
  EXPECT_NEAR(time.collective_seconds, gather, kClose);
}

// Kernels of two queues that run at once leave no time in which none does, and not less than none.
TEST(TimeModel, KernelsOfTwoQueuesExposeNothing) {
  Machine machine = round_machine();
  machine.constants.launch_seconds = 0;
  machine.constants.contention = 0;
  std::vector<Work> work = {memory(5e8), memory(5e8)};
  work[1].queue = kBesideCompute;
  const StepTime time = run_queues(work, machine);
  EXPECT_NEAR(time.seconds, 1e-3, kClose);
  EXPECT_NEAR(time.compute_seconds, 2e-3, kClose);
  EXPECT_EQ(time.exposed_seconds(), 0);
}

TEST(TimeModel, RanksWaitForTheSlowestOfManyNodes) {
  const Machine machine = round_machine();
  EXPECT_EQ(straggle_factor(machine, 1), 1);
  EXPECT_EQ(straggle_factor(machine, 4), 1);
  EXPECT_NEAR(straggle_factor(machine, 32), 1.03, kClose);
}

}  // namespace
}  // namespace causeway::plan
