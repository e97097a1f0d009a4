// Exchange between processes: what can be told without MPI, and launches of two and four processes by the MPIs that are
// installed.
#include "causeway/communicator/mpi_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "causeway/base/error.h"
#include "causeway/communicator/mpi_launch.h"
#include "causeway/communicator/mpi_library.h"
#include "causeway/device/cpu/cpu_device.h"
#include "tests/communicator/mpi_launcher.h"
#include "tests/fixtures/error_message.h"

namespace causeway::communicator {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::optional<MpiLaunch> launch_of(const std::map<std::string, std::string>& variables) {
  return find_mpi_launch([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(MpiLaunchTest, ReadsWhatLaunchersTell) {
  const auto open_mpi = launch_of({{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "3"}, {"PMIX_RANK", "3"}});
  ASSERT_TRUE(open_mpi);
  EXPECT_EQ(open_mpi->family, MpiFamily::kOpenMpi);
  EXPECT_EQ(open_mpi->size, 4);
  EXPECT_EQ(open_mpi->rank, 3);
  EXPECT_FALSE(open_mpi->local_rank);
  EXPECT_EQ(
      launch_of({{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}})
          ->local_rank,
      1);
  const auto mpich = launch_of({{"PMI_SIZE", "2"}, {"PMI_RANK", "0"}});
  ASSERT_TRUE(mpich);
  EXPECT_EQ(mpich->family, MpiFamily::kMpich);
  EXPECT_EQ(mpich->variable, "PMI_SIZE");
  const auto slurm = launch_of({{"SLURM_NTASKS", "16"}, {"PMIX_RANK", "15"}, {"SLURM_PROCID", "15"}});
  ASSERT_TRUE(slurm);
  EXPECT_EQ(slurm->family, MpiFamily::kEither);
  EXPECT_EQ(slurm->size, 16);
  // Inside of a job, but not started by its launcher.
  EXPECT_FALSE(launch_of({{"SLURM_NTASKS", "16"}}));
  EXPECT_FALSE(launch_of({}));
  EXPECT_FALSE(launch_of({{"PMI_SIZE", "two"}, {"PMI_RANK", "0"}}));
  EXPECT_FALSE(launch_of({{"PMI_SIZE", "2"}, {"PMI_RANK", "2"}}));
  EXPECT_FALSE(launch_of({{"PMI_SIZE", ""}, {"PMI_RANK", ""}}));
}

TEST(MpiLaunchTest, ReadsTheProcessesOfOneMachine) {
  const auto open_mpi = launch_of({{"OMPI_COMM_WORLD_SIZE", "4"},
                                   {"OMPI_COMM_WORLD_RANK", "3"},
                                   {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                   {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  ASSERT_TRUE(open_mpi);
  EXPECT_EQ(open_mpi->local_rank, 1);
  EXPECT_EQ(open_mpi->local_size, 2);
  const auto mpich =
      launch_of({{"PMI_SIZE", "2"}, {"PMI_RANK", "0"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "2"}});
  ASSERT_TRUE(mpich);
  EXPECT_EQ(mpich->local_rank, 0);
  EXPECT_EQ(mpich->local_size, 2);
  const auto unknown = launch_of({{"PMI_SIZE", "2"}, {"PMI_RANK", "0"}});
  ASSERT_TRUE(unknown);
  EXPECT_FALSE(unknown->local_rank);
}

// What is thrown in a process with these variables, or "no error".
std::string refusal_of_launch(const std::map<std::string, std::string>& variables) {
  const auto expected = find_expected_processes([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
  return message_of([&] { require_expected_processes(launch_of(variables), expected); });
}

TEST(MpiLaunchTest, RefusesProcessesThatDoNotKnowOfEachOther) {
  // srun without a process manager that the MPI knows.
  EXPECT_THAT(refusal_of_launch({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "2"}}),
              AllOf(HasSubstr("4 processes were to be started (SLURM_NTASKS), but this one knows of no other"),
                    HasSubstr("srun --mpi=pmix")));
  EXPECT_THAT(refusal_of_launch({{"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}}),
              HasSubstr("2 processes were to be started (SLURM_STEP_NUM_TASKS)"));
  EXPECT_THAT(refusal_of_launch({{kProcessesVariable, "2"}}),
              AllOf(HasSubstr("2 processes were to be started (CAUSEWAY_PROCESSES), but this one knows of no other"),
                    HasSubstr("causeway launch -n 2")));
  EXPECT_THAT(
      refusal_of_launch({{kProcessesVariable, "4"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "0"}}),
      HasSubstr("4 processes were to be started (CAUSEWAY_PROCESSES), but the launcher tells each of 2 "
                "(OMPI_COMM_WORLD_SIZE)"));
  // In good order: alone, in a shell of a job, by mpirun in a job, by srun.
  EXPECT_EQ(refusal_of_launch({}), "no error");
  EXPECT_EQ(refusal_of_launch({{"SLURM_NTASKS", "4"}}), "no error");
  EXPECT_EQ(
      refusal_of_launch(
          {{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "1"}}),
      "no error");
  EXPECT_EQ(refusal_of_launch({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "3"}, {"PMIX_RANK", "3"}}), "no error");
  EXPECT_EQ(refusal_of_launch({{kProcessesVariable, "1"}}), "no error");
}

TEST(MpiLibraryTest, NamesAreShort) {
  EXPECT_EQ(short_mpi_name("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, repo rev: v4.1.4, May 26, 2022"),
            "Open MPI 4.1.4");
  EXPECT_EQ(short_mpi_name("MPICH Version:\t4.0.2\nMPICH Release date:\tThu Apr  7 12:34:45 CDT 2022\n"),
            "MPICH 4.0.2");
  EXPECT_EQ(short_mpi_name("Intel(R) MPI Library 2021.8 for Linux* OS\n"), "Intel(R) MPI Library 2021.8 for Linux* OS");
  EXPECT_EQ(short_mpi_name("MPICH Version:"), "MPICH");
  EXPECT_EQ(short_mpi_name(""), "MPI");
}

// The values of mpi.h, which all libraries of this family share (the MPICH ABI Compatibility Initiative).
TEST(MpiLibraryTest, MpichHandlesAreItsNumbers) {
  const MpiAbi abi = mpich_abi();
  EXPECT_EQ(abi.world, 0x44000000u);
  EXPECT_EQ(abi.byte, 0x4c00010du);
  EXPECT_EQ(abi.uint16, 0x4c00023cu);
  EXPECT_EQ(abi.f32, 0x4c00040au);
  EXPECT_EQ(abi.f64, 0x4c00080bu);
  EXPECT_EQ(abi.sum, 0x58000003u);
  EXPECT_EQ(abi.errors_return, 0x54000001u);
  EXPECT_EQ(reinterpret_cast<intptr_t>(abi.in_place), -1);
  EXPECT_EQ(reinterpret_cast<intptr_t>(abi.ignored_status), 1);
  // Bytes of an element, in bits 8 to 15 of a type's number.
  EXPECT_EQ(abi.uint16 >> 8 & 0xff, 2u);
  EXPECT_EQ(abi.f32 >> 8 & 0xff, 4u);
  EXPECT_EQ(abi.f64 >> 8 & 0xff, 8u);
}

TEST(MpiLibraryTest, SaysWhatIsMissing) {
  EXPECT_THAT(message_of([] { open_mpi_library("/no/such/libmpi.so.40", MpiFamily::kOpenMpi); }),
              AllOf(HasSubstr("MPI's library (Open MPI) cannot be opened: /no/such/libmpi.so.40"),
                    HasSubstr("libopenmpi3"), HasSubstr("--mpi")));
  EXPECT_THAT(message_of([] { open_mpi_library("/no/such/libmpich.so.12", MpiFamily::kMpich); }),
              AllOf(HasSubstr("MPI's library (MPICH) cannot be opened"), HasSubstr("libmpich12"), HasSubstr("--mpi")));
  // A library without MPI's functions.
  EXPECT_THAT(message_of([] { MpiLibrary(open_mpi_library(CAUSEWAY_NCCL_STAND_IN, MpiFamily::kOpenMpi)); }),
              HasSubstr("has no function MPI_Init_thread"));
}

TEST(MpiLibraryTest, IsOpenedOnlyUnderALauncher) {
  ASSERT_FALSE(find_mpi_launch()) << "these tests are started alone";
  EXPECT_THAT(message_of([] { open_mpi(std::make_shared<CpuDevice>(1)); }),
              AllOf(HasSubstr("this process was not started by mpirun, mpiexec or srun"), HasSubstr("mpirun -n 4")));
}

class MpiLaunchedTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    launcher_ = find_launcher(GetParam());
    if (!launcher_) GTEST_SKIP() << GetParam() << " is not installed: its launcher was not found.";
  }
  MpiOutcome run(int ranks, const std::string& task) const {
    return launcher_->run(ranks, CAUSEWAY_MPI_RANKS " " + task);
  }

  std::optional<MpiLauncher> launcher_;
};

// Broadcasts in f32 and bf16, in and out of place, of four counts and from each rank, and the other collectives.
int cases_of(int ranks) { return 2 * 4 * (2 * 3 + 2 * ranks + 2); }

TEST_P(MpiLaunchedTest, ComputesWhatPlainLoopsCompute) {
  for (const std::string task : {"collectives", "pieces"}) {
    const MpiOutcome two = run(2, task);
    EXPECT_EQ(two.status, 0) << two.output;
    const std::string by = std::string(" ranks by ") + GetParam() + " ";
    EXPECT_THAT(two.output, HasSubstr("2" + by));
    EXPECT_THAT(two.output, HasSubstr(": " + std::to_string(cases_of(2)) + " cases, 0 wrong"));
    EXPECT_THAT(two.output, HasSubstr("sums 256 nan -inf 2.5"));
    EXPECT_THAT(two.output, HasSubstr("messages of 2 ranks: 0 wrong"));
    const MpiOutcome four = run(4, task);
    EXPECT_EQ(four.status, 0) << four.output;
    EXPECT_THAT(four.output, HasSubstr("4" + by));
    EXPECT_THAT(four.output, HasSubstr("messages of 4 ranks: 0 wrong"));
    EXPECT_THAT(four.output, HasSubstr(": " + std::to_string(cases_of(4)) + " cases, 0 wrong"));
    EXPECT_THAT(four.output, HasSubstr(": " + std::to_string(cases_of(2)) + " cases, 0 wrong"));
  }
}

TEST_P(MpiLaunchedTest, ProcessesDecideAlike) {
  const MpiOutcome outcome = run(3, "control");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  for (const std::string rank : {"0", "1", "2"}) {
    const size_t at = outcome.output.find("rank " + rank + ": ");
    ASSERT_NE(at, std::string::npos) << outcome.output;
    const std::string told = outcome.output.substr(at, outcome.output.find(", pair", at) + 14 - at);
    EXPECT_THAT(told, HasSubstr("of_first 10, total 6 1.5, error [here: no memory at rank 1\n  Buy some.], after it 1, "
                                "machines 1, ranks there 3"));
    EXPECT_THAT(told, HasSubstr(rank == "2" ? "pair none" : "pair " + rank + " of 2"));
  }
}

// None of these may end by the time limit, whose status is 124.
TEST_P(MpiLaunchedTest, WhoFailsLeavesNobodyWaiting) {
  const MpiOutcome mismatch = run(2, "mismatch");
  EXPECT_THAT(mismatch.status, AllOf(Not(0), Not(124))) << mismatch.output;
  EXPECT_THAT(mismatch.output, HasSubstr(std::string("error: mpi: ") + GetParam()));
  EXPECT_THAT(mismatch.output, AllOf(HasSubstr(" could not "), HasSubstr("runcate")));
  const MpiOutcome throws = run(2, "throws");
  EXPECT_THAT(throws.status, AllOf(Not(0), Not(124))) << throws.output;
  EXPECT_THAT(throws.output, HasSubstr("error: mpi_ranks: rank 1 has had enough"));
  const MpiOutcome killed = run(2, "killed");
  EXPECT_THAT(killed.status, AllOf(Not(0), Not(124))) << killed.output;
}

TEST_P(MpiLaunchedTest, AnotherLibrarySaysSo) {
  const bool is_open_mpi = GetParam() == std::string("Open MPI");
  const std::string variable = is_open_mpi ? "OMPI_COMM_WORLD_SIZE" : "PMI_SIZE";
  // As if a launcher of this family had started one of two, which nobody did: the library finds itself alone.
  const MpiOutcome outcome = run_in_shell("env " + variable + "=2 " + (is_open_mpi ? "OMPI_COMM_WORLD" : "PMI") +
                                          "_RANK=0 timeout 60 " CAUSEWAY_MPI_RANKS " control");
  EXPECT_THAT(outcome.status, AllOf(Not(0), Not(124))) << outcome.output;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("the launcher started 2 processes (" + variable + "), and " + GetParam()),
                                    HasSubstr("knows of 1"), HasSubstr("--mpi")));
}

INSTANTIATE_TEST_SUITE_P(Installed, MpiLaunchedTest, testing::Values("Open MPI", "MPICH"),
                         [](const auto& one) { return std::string(one.param) == "MPICH" ? "Mpich" : "OpenMpi"; });

}  // namespace
}  // namespace causeway::communicator
