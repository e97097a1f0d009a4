#include "causeway/bench/collectives_benchmark.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "causeway/base/error.h"
#include "causeway/communicator/thread_communicator.h"
#include "causeway/device/cpu/cpu_device.h"

namespace causeway::bench {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<std::shared_ptr<Device>> processors(int ranks) {
  return std::vector<std::shared_ptr<Device>>(static_cast<size_t>(ranks), std::make_shared<CpuDevice>(1));
}

CollectivesOptions quick() {
  CollectivesOptions options;
  options.timing.samples = 4;
  options.timing.rounds = 2;
  options.timing.warm_up_seconds = 0;
  return options;
}

// Does the work, then spoils elements of a rank's result in the executions that are told.
class FaultyCommunicator : public Communicator {
 public:
  FaultyCommunicator(int ranks, std::set<int> faulty_runs)
      : Communicator(processors(ranks)),
        right_(make_thread_communicator(processors(ranks))),
        faulty_runs_(std::move(faulty_runs)) {}
  std::string name() const override { return "faulty"; }
  int runs() const { return run_; }

 private:
  void do_run(const Collective& collective, std::span<const void* const> from, std::span<void* const> to,
              DeviceQueue) override {
    right_->run(collective, from, to);
    if (faulty_runs_.contains(run_++)) {
      auto* values = static_cast<float*>(to[1]);
      values[0] += 1;
      values[collective.received(size()) - 1] = NAN;
    }
  }
  void do_send_receive(std::span<const Transfer> transfers, DeviceQueue) override {
    right_->send_receive(transfers.first(1));
  }

  std::unique_ptr<Communicator> right_;
  std::set<int> faulty_runs_;
  int run_ = 0;
};

TEST(CollectivesBenchmarkTest, FactorsAreThoseOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_bandwidth_factor(CollectiveKind::kAllReduce, 8), 1.75);
  EXPECT_DOUBLE_EQ(bus_bandwidth_factor(CollectiveKind::kAllReduce, 2), 1);
  EXPECT_DOUBLE_EQ(bus_bandwidth_factor(CollectiveKind::kAllGather, 8), 0.875);
  EXPECT_DOUBLE_EQ(bus_bandwidth_factor(CollectiveKind::kReduceScatter, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_bandwidth_factor(CollectiveKind::kAllToAll, 2), 0.5);
  EXPECT_DOUBLE_EQ(bus_bandwidth_factor(CollectiveKind::kBroadcast, 8), 1);
  EXPECT_DOUBLE_EQ(bus_bandwidth_factor(CollectiveKind::kSendReceive, 8), 1);
}

TEST(CollectivesBenchmarkTest, SizesAreOfTheLargerBuffer) {
  CollectiveCase c{CollectiveKind::kAllReduce, 3, int64_t{1} << 20, DType::kF32, false, {}};
  EXPECT_EQ(c.collective().count, 1 << 18);
  EXPECT_EQ(c.moved_bytes(), 1 << 20);
  EXPECT_EQ(c.group(), "all_reduce, 3 devices");
  EXPECT_EQ(c.workload(), "1 MiB out of place, all_reduce, 3 devices");
  c.kind = CollectiveKind::kAllGather;
  c.in_place = true;
  c.bytes = int64_t{16} << 20;
  // 5,592,405.3 bytes of each rank, rounded down to 16.
  EXPECT_EQ(c.collective().count, 1398100);
  EXPECT_EQ(c.moved_bytes(), 3 * 4 * 1398100);
  EXPECT_EQ(c.workload(), "16 MiB in place, all_gather, 3 devices");
  c.dtype = DType::kBF16;
  EXPECT_EQ(c.collective().count, 2796200);
  c.bytes = 47;
  EXPECT_THROW(
      try { c.collective(); } catch (const Error& error) {
        EXPECT_THAT(error.what(),
                    AllOf(HasSubstr("47 B are too few for all_gather among 3 ranks"), HasSubstr("48 bytes or more")));
        throw;
      },
      Error);
  c = {CollectiveKind::kSendReceive, 8, int64_t{1} << 30, DType::kF32, false, std::pair(0, 3)};
  EXPECT_EQ(c.group(), "send_receive, pairs");
  EXPECT_EQ(c.workload(), "1 GiB between 0 and 3, send_receive");
}

TEST(CollectivesBenchmarkTest, StandardCasesCoverGroupsSizesAndPlaces) {
  const auto of_gpus = standard_collective_cases(true, 8, DType::kF32);
  std::set<std::string> workloads;
  std::set<int64_t> sizes;
  int pairs = 0;
  for (const CollectiveCase& c : of_gpus) {
    workloads.insert(c.workload());
    sizes.insert(c.bytes >> 20);
    pairs += c.pair ? 1 : 0;
    EXPECT_TRUE(!c.in_place || has_in_place(c.kind));
  }
  EXPECT_EQ(workloads.size(), of_gpus.size());
  EXPECT_THAT(sizes, ElementsAre(16, 32, 64, 128, 256));
  EXPECT_EQ(pairs, 28);
  EXPECT_EQ(of_gpus.size(), 3u * 5 * (6 + 4) + 28);
  EXPECT_TRUE(workloads.contains("16 MiB in place, all_reduce, 8 devices"));

  const int64_t asked[] = {4096};
  const auto of_processors = standard_collective_cases(false, 3, DType::kBF16, asked);
  EXPECT_EQ(of_processors.size(), 2u * (6 + 4));
  EXPECT_EQ(of_processors.back().ranks, 3);
  EXPECT_EQ(of_processors.back().bytes, 4096);
  EXPECT_EQ(standard_collective_cases(false, 2, DType::kF32).front().bytes, 1 << 20);
  EXPECT_THAT(standard_collective_cases(true, 1, DType::kF32), IsEmpty());
}

TEST(CollectivesBenchmarkTest, ReadsNames) {
  EXPECT_EQ(parse_collective("reduce_scatter"), CollectiveKind::kReduceScatter);
  try {
    parse_collective("allreduce");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("'allreduce' is no collective"), HasSubstr("Did you mean all_reduce?")));
  }
}

TEST(CollectivesBenchmarkTest, EveryCollectiveIsMeasuredAndRight) {
  const auto devices = processors(3);
  const int64_t sizes[] = {1000, 100000, 10000000};
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    auto cases = standard_collective_cases(false, 3, dtype, sizes);
    cases.push_back({CollectiveKind::kSendReceive, 3, 5000, dtype, false, std::pair(2, 0)});
    std::vector<std::string> skipped;
    size_t heard = 0;
    const auto measurements =
        run_collectives(groups_of(devices), cases, quick(), {}, skipped, [&](const Measurement&) { ++heard; });
    EXPECT_THAT(skipped, IsEmpty());
    ASSERT_THAT(measurements, SizeIs(cases.size()));
    EXPECT_EQ(heard, cases.size());
    for (const Measurement& m : measurements) {
      EXPECT_TRUE(m.correct) << m.workload << ": " << m.check;
      EXPECT_EQ(m.details.at("wrong"), "0");
      EXPECT_EQ(m.provider, "threads");
      EXPECT_EQ(m.unit, "GB/s");
      ASSERT_THAT(m.rounds, SizeIs(2));
      EXPECT_THAT(m.rounds[0], SizeIs(2));
      EXPECT_FALSE(m.peak);
    }
    const Measurement& first = measurements.front();
    EXPECT_EQ(first.workload, "1000 B out of place, all_reduce, 2 devices");
    EXPECT_EQ(first.work, 1000);
    const Measurement& pair = measurements.back();
    EXPECT_EQ(pair.details.at("devices"), "2");
    EXPECT_THAT(pair.check, HasSubstr("received by 2 ranks"));
  }
}

TEST(CollectivesBenchmarkTest, WrongElementsAreCounted) {
  const auto wrong = [](CollectiveKind kind, bool in_place, const std::set<int>& faulty_runs) {
    FaultyCommunicator communicator(2, faulty_runs);
    const Measurement m = run_collective(communicator, {kind, 2, 1 << 20, DType::kF32, in_place, {}}, quick(), {});
    EXPECT_EQ(m.correct, m.details.at("wrong") == "0");
    EXPECT_THAT(m.check, testing::StartsWith(m.details.at("wrong") + " wrong of "));
    return m.details.at("wrong");
  };
  // One to check, one to warm up, four samples with one before each of two rounds; in place, one more to check.
  for (const CollectiveKind kind : {CollectiveKind::kAllReduce, CollectiveKind::kAllGather,
                                    CollectiveKind::kReduceScatter, CollectiveKind::kBroadcast}) {
    EXPECT_EQ(wrong(kind, false, {}), "0");
    EXPECT_EQ(wrong(kind, false, {0}), "2");
    EXPECT_EQ(wrong(kind, false, {7}), "2");
    EXPECT_EQ(wrong(kind, false, {0, 7}), "4");
    EXPECT_EQ(wrong(kind, true, {}), "0");
    EXPECT_EQ(wrong(kind, true, {8}), "2");
  }
  // Nothing arrives at rank 0: all of it is NaN as before, twice.
  EXPECT_EQ(wrong(CollectiveKind::kSendReceive, false, {}), std::to_string(2 * (1 << 18)));
}

TEST(CollectivesBenchmarkTest, PeakIsTheLinksWhereTheyBound) {
  DevicePeak peak;
  peak.link_gb_per_s = 450;
  peak.source = "datasheet";
  const auto communicator = make_thread_communicator(processors(4));
  CollectivesOptions options = quick();
  const auto peak_of = [&](CollectiveKind kind) {
    return run_collective(*communicator, {kind, 4, 4096, DType::kF32, false, {}}, options, peak).peak;
  };
  EXPECT_EQ(peak_of(CollectiveKind::kAllGather), 450);
  // A switch may add up: the links carry less than the bus bandwidth says.
  EXPECT_EQ(peak_of(CollectiveKind::kAllReduce), std::nullopt);
  options.nvlink_multicast = false;
  EXPECT_EQ(peak_of(CollectiveKind::kAllReduce), 450);
}

TEST(CollectivesBenchmarkTest, SaysWhatWasLeftOut) {
  const CollectiveCase cases[] = {{CollectiveKind::kAllReduce, 2, 4096, DType::kF32, false, {}},
                                  {CollectiveKind::kAllReduce, 2, 4096, DType::kF16, false, {}},
                                  {CollectiveKind::kAllGather, 2, 8, DType::kF32, false, {}},
                                  {CollectiveKind::kAllReduce, 4, 4096, DType::kF32, false, {}}};
  std::vector<std::string> skipped;
  EXPECT_THAT(run_collectives(groups_of(processors(2)), cases, quick(), {}, skipped), SizeIs(1));
  EXPECT_THAT(skipped,
              ElementsAre(AllOf(HasSubstr("4 KiB out of place, all_reduce, 2 devices f16: "), HasSubstr("f32 or bf16")),
                          HasSubstr("8 B are too few"), "collectives of 4 devices: there are 2"));
}

TEST(CollectivesBenchmarkTest, TableHasTheColumnsOfNcclTests) {
  std::vector<Measurement> measurements;
  for (const bool in_place : {false, true}) {
    Measurement m;
    m.benchmark = "collectives";
    m.group = "all_reduce, 8 devices";
    m.dtype = "f32";
    m.provider = "NCCL 2.27.5";
    m.size = 33554432;
    m.unit = "GB/s";
    m.work = 33554432 * 1.75;
    m.rounds = {{in_place ? 200e-6 : 100e-6}};
    m.details = {{"place", in_place ? "in place" : "out of place"},
                 {"bytes", "33554432"},
                 {"count", "8388608"},
                 {"wrong", in_place ? "3" : "0"},
                 {"reduction", "sum"},
                 {"root", "-1"}};
    measurements.push_back(m);
  }
  measurements.push_back(measurements[0]);
  measurements[2].group = "all_to_all, 8 devices";
  measurements[2].details["reduction"] = "none";
  const std::string table = format_nccl_table(measurements);
  EXPECT_THAT(
      table,
      HasSubstr(
          "    33554432       8388608     float     sum      -1     100.00   335.54   587.20       0     200.00   "
          "167.77   293.60       3\n"));
  EXPECT_THAT(table, HasSubstr("# Out of bounds values : 3 FAILED\n# Avg bus bandwidth    : 440.4019\n"));
  EXPECT_THAT(table, HasSubstr("   587.20       0        N/A      N/A      N/A     N/A\n"));
  EXPECT_THAT(table, HasSubstr("# all_to_all, 8 devices, f32, NCCL 2.27.5\n"));
  EXPECT_EQ(format_nccl_table({}), "");
}

}  // namespace
}  // namespace causeway::bench
