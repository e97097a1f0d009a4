// `causeway bench collectives` as one of several processes, under each MPI that is installed, and what it says where it
// is not started so.
#include <nlohmann/json.hpp>

#include "tests/cli/program_under_test.h"
#include "tests/communicator/mpi_launcher.h"

namespace causeway::cli {
namespace {

class BenchMpiTest : public CliTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    launcher_ = find_launcher(GetParam());
    if (!launcher_) GTEST_SKIP() << GetParam() << " is not installed: its launcher was not found.";
  }
  MpiOutcome bench(int ranks, const std::string& options) const {
    return launcher_->run(ranks, CAUSEWAY_BINARY_DIR "/causeway bench collectives --store " +
                                     path("results.sqlite").string() + " " + options);
  }

  std::optional<MpiLauncher> launcher_;
};

TEST_P(BenchMpiTest, OneProcessTellsWhatAllMeasured) {
  const MpiOutcome outcome = bench(2, "--backend mpi --size 8K --samples 20 --dtype f32,bf16");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_EQ(count_of(outcome.output, "20 figures stored as run 1"), 1u) << outcome.output;
  EXPECT_EQ(count_of(outcome.output, "# all_reduce, 2 devices, bf16, "), 1u) << outcome.output;
  EXPECT_EQ(outcome.output.find("WRONG"), std::string::npos) << outcome.output;
  EXPECT_EQ(outcome.output.find("left out"), std::string::npos) << outcome.output;

  ASSERT_EQ(run({"bench", "export", "1", "-o", "one.json", "--store", "results.sqlite"}).status, 0);
  const nlohmann::json run = nlohmann::json::parse(read_text_file(path("one.json")))["runs"][0];
  EXPECT_EQ(run["device_count"], 2);
  ASSERT_EQ(run["measurements"].size(), 20u);
  for (const nlohmann::json& measurement : run["measurements"]) {
    EXPECT_TRUE(measurement["provider"].get<std::string>().starts_with(GetParam())) << measurement["provider"];
    EXPECT_EQ(measurement["details"]["wrong"], "0");
    EXPECT_EQ(measurement["details"]["devices"], "2");
    size_t samples = 0;
    for (const nlohmann::json& round : measurement["rounds"]) {
      samples += round.size();
      for (const double seconds : round) EXPECT_GT(seconds, 0);
    }
    EXPECT_EQ(samples, 20u);
  }
}

// Four processes, of which two rest in the groups of two; every one must end when rank 0 says that time is over.
TEST_P(BenchMpiTest, GroupsAndTimeAreAgreedOn) {
  const MpiOutcome outcome = bench(4, "--size 4K --collective all_reduce --samples 100000 --seconds 0.1");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("4 figures stored as run 1"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("4 KiB in place, all_reduce, 2 devices"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("4 KiB in place, all_reduce, 4 devices"), std::string::npos) << outcome.output;
}

TEST_P(BenchMpiTest, LinksAreATableOfRanks) {
  const MpiOutcome outcome = bench(3, "--links --size 8K --samples 3");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("3 figures stored as run 1"), std::string::npos) << outcome.output;
  EXPECT_EQ(count_of(outcome.output, "slowest: "), 1u) << outcome.output;
  const MpiOutcome both = bench(2, "--links --collective all_gather");
  EXPECT_NE(both.status, 0);
  EXPECT_NE(both.output.find("Leave out --collective or --links."), std::string::npos) << both.output;
}

TEST_P(BenchMpiTest, WhatCannotBeMeasuredIsLeftOutByAll) {
  const MpiOutcome outcome = bench(2, "--size 4,4K --collective all_gather --samples 3");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("2 figures stored as run 1"), std::string::npos) << outcome.output;
  EXPECT_EQ(count_of(outcome.output, "4 B are too few for all_gather among 2 ranks"), 2u) << outcome.output;
}

TEST_P(BenchMpiTest, OneProcessTellsWhatIsWrong) {
  const auto expect = [&](const MpiOutcome& outcome, const std::string& text) {
    EXPECT_NE(outcome.status, 0) << outcome.output;
    EXPECT_NE(outcome.status, 124) << outcome.output;
    EXPECT_EQ(count_of(outcome.output, text), 1u) << outcome.output;
  };
  expect(bench(2, "--size 12Q"), "'12Q' is not a size");
  expect(bench(2, "--devices 2"), "with MPI there is a rank for each process");
  expect(bench(2, "--backend mpi --device cuda"), "mpi exchanges between processors here, and cuda is none");
  expect(bench(2, "--backend threads"), "2 processes were started, and threads exchanges within one");
  expect(bench(1, "--backend mpi"), "started one process, which has nobody to exchange with");
  const MpiOutcome missing = bench(2, "--mpi /no/such/libmpi.so");
  EXPECT_NE(missing.status, 0);
  EXPECT_NE(missing.output.find("/no/such/libmpi.so"), std::string::npos) << missing.output;
  // What fails in rank 0 alone ends the others, which wait for it.
  write("not_a_store", "text");
  const MpiOutcome store = launcher_->run(2, CAUSEWAY_BINARY_DIR "/causeway bench collectives --size 4K --store " +
                                                 path("not_a_store/results.sqlite").string());
  EXPECT_NE(store.status, 0);
  EXPECT_NE(store.status, 124) << store.output;
  EXPECT_NE(store.output.find("error: "), std::string::npos) << store.output;
}

INSTANTIATE_TEST_SUITE_P(Installed, BenchMpiTest, testing::Values("Open MPI", "MPICH"),
                         [](const auto& one) { return std::string(one.param) == "MPICH" ? "Mpich" : "OpenMpi"; });

using BenchBackendTest = CliTest;

TEST_F(BenchBackendTest, MpiSaysHowToStartIt) {
  expect_failure({"bench", "collectives", "--backend", "mpi"}, 1,
                 {"this process was not started by mpirun, mpiexec or srun",
                  "mpirun -n 4 causeway bench collectives --backend mpi"});
  expect_failure({"bench", "collectives", "--backend", "mip"}, 1, {"'mip' is no backend", "Did you mean mpi?"});
  expect_failure({"bench", "collectives", "--backend", "nccl", "--device", "cpu"}, 1,
                 {"nccl exchanges between NVIDIA's GPUs here, and cpu is none"});
}

}  // namespace
}  // namespace causeway::cli
