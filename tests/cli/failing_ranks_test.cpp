// Runs of several processes of which one is killed or stopped: all end, one message says why, and nothing that was
// committed is lost. And those whose `causeway launch` is sent a signal, or killed.
#include <dirent.h>
#include <gmock/gmock.h>

#include <random>

#include "causeway/base/host_name.h"
#include "tests/cli/program_under_test.h"
#include "tests/communicator/mpi_launcher.h"

namespace causeway::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class FailingRanksTest : public CliTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    const auto launcher = find_launcher(GetParam());
    if (!launcher) GTEST_SKIP() << GetParam() << " is not installed: its launcher was not found.";
    std::filesystem::create_directory(path("bin"));
    link_launcher(*launcher, path("bin/mpirun"));
    environment_["PATH"] = path("bin").string() + ":/usr/bin:/bin";
    prepare_data();
  }

  // The processes of a rank of this test's run, which its working directory tells from others; not a shell around it.
  std::vector<pid_t> processes_of_rank(int rank) const {
    std::vector<pid_t> found;
    DIR* directory = ::opendir("/proc");
    while (const dirent* entry = ::readdir(directory)) {
      const pid_t process = std::atoi(entry->d_name);
      if (process <= 0) continue;
      const std::string own = "/proc/" + std::to_string(process);
      std::error_code code;
      if (std::filesystem::read_symlink(own + "/cwd", code) != std::filesystem::canonical(directory_.path())) continue;
      if (std::filesystem::read_symlink(own + "/exe", code).filename() != "causeway") continue;
      std::ifstream file(own + "/environ", std::ios::binary);
      const std::string variables(std::istreambuf_iterator<char>(file), {});
      const std::string of_rank = std::to_string(rank) + '\0';
      if (variables.find("OMPI_COMM_WORLD_RANK=" + of_rank) != std::string::npos ||
          variables.find("PMI_RANK=" + of_rank) != std::string::npos)
        found.push_back(process);
    }
    ::closedir(directory);
    return found;
  }

  // The newest checkpoint that is committed; 0: none.
  int64_t newest_step() const {
    int64_t newest = 0;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(path("runs/tiny/checkpoints"), none)) {
      const std::string name = entry.path().filename();
      if (name.starts_with("step-") && name.find_first_not_of("0123456789", 5) == std::string::npos)
        newest = std::max(newest, static_cast<int64_t>(std::stoll(name.substr(5))));
    }
    return newest;
  }

  // What a rank that was left over says it was at.
  void expect_flight_file(int rank, int ranks) const {
    const nlohmann::json flight =
        nlohmann::json::parse(read_text_file(path("runs/tiny/flight_rank_" + std::to_string(rank) + ".json")));
    EXPECT_EQ(flight["rank"], rank);
    EXPECT_EQ(flight["ranks"], ranks);
    EXPECT_GE(flight["step"], 1);
    EXPECT_EQ(flight["ends_are_known"], true);
    ASSERT_FALSE(flight["collectives"].empty());
    int64_t number = flight["collectives"][0]["number"];
    for (const nlohmann::json& one : flight["collectives"]) {
      EXPECT_EQ(one["number"], number++);
      EXPECT_EQ(one["started"], one["queued"]);
      if (!one["ended"].is_null()) EXPECT_GE(one["ended"], one["started"]);
      EXPECT_FALSE(one["name"].get<std::string>().empty());
    }
  }

  pid_t start_run(int ranks, const std::vector<std::string>& overrides = {"checkpoint.interval=5"}) const {
    std::vector<std::string> words = {"launch",
                                      "-n",
                                      std::to_string(ranks),
                                      "--",
                                      "train",
                                      "tiny.yaml",
                                      ranks == 2 ? "mesh.fsdp=2" : "mesh.dp=4",
                                      "train.steps=4000000",
                                      "checkpoint.interval_minutes=0",
                                      "evaluation.interval=0",
                                      "log.tensorboard=false",
                                      "--resume",
                                      "auto",
                                      "--quiet"};
    words.insert(words.end(), overrides.begin(), overrides.end());
    return start(words);
  }

  void expect_nobody_is_left() const {
    for (int rank = 0; rank < 2; ++rank) EXPECT_THAT(processes_of_rank(rank), testing::IsEmpty()) << rank;
  }

  void wait_for_step(int64_t step) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    while (newest_step() < step) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << read_text_file(path("stderr"));
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
};

TEST_P(FailingRanksTest, NothingCommittedIsLostWhenARankIsKilled) {
  std::mt19937 random(1);
  int64_t committed = 0;
  // Twenty take minutes on two processors: CAUSEWAY_KILLS=20.
  const char* asked = std::getenv("CAUSEWAY_KILLS");
  const int kills = asked != nullptr ? std::atoi(asked) : 4;
  for (int kill = 0; kill < kills; ++kill) {
    const int ranks = kill % 2 == 0 ? 2 : 4;
    const auto victim = static_cast<int>(random() % static_cast<unsigned>(ranks));
    const pid_t run = start_run(ranks);
    wait_for_step(committed + 5);  // it goes on from where the one before ended
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 300));
    const std::vector<pid_t> processes = processes_of_rank(victim);
    ASSERT_FALSE(processes.empty()) << read_text_file(path("stderr"));
    committed = newest_step();
    for (const pid_t process : processes) ::kill(process, SIGKILL);
    const Outcome outcome = wait_for(run);
    EXPECT_NE(outcome.status, 0);
    EXPECT_EQ(count_of(outcome.err, "error: "), 1u) << outcome.err;
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("rank " + std::to_string(victim) + " of " + std::to_string(ranks) +
                                             " (host " + host_name() + ", process "),
                                   HasSubstr("its process ended without a word"), HasSubstr("at step ")));
    for (int rank = 0; rank < ranks; ++rank) EXPECT_THAT(processes_of_rank(rank), testing::IsEmpty());
    EXPECT_GE(newest_step(), committed);
    committed = newest_step();
  }
  EXPECT_EQ(run({"checkpoint", "verify", "runs/tiny"}).status, 0);
}

TEST_P(FailingRanksTest, ARankThatIsStoppedEndsTheRun) {
  const pid_t run = start_run(2);
  wait_for_step(5);
  for (const pid_t process : processes_of_rank(1)) ::kill(process, SIGSTOP);
  const Outcome outcome = wait_for(run);
  EXPECT_NE(outcome.status, 0);
  EXPECT_EQ(count_of(outcome.err, "error: "), 1u) << outcome.err;
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("rank 1 of 2"), HasSubstr("nothing was heard of it for"),
                    HasSubstr("last collective number"), HasSubstr("are in runs/tiny/flight_rank_N.json.")));
  expect_flight_file(0, 2);
  EXPECT_THAT(processes_of_rank(0), testing::IsEmpty());
  EXPECT_THAT(processes_of_rank(1), testing::IsEmpty());
}

// No launcher sees them: it would end the ranks before a long step is over, and with a status of its own.
TEST_P(FailingRanksTest, SignalsToTheLaunchReachTheRun) {
  for (const int signal : {SIGTERM, SIGHUP}) {
    std::filesystem::remove_all(path("runs"));
    const pid_t launch = start_run(2, {"checkpoint.interval=0"});
    wait_for_metrics("runs/tiny", 5);
    if (signal == SIGTERM) {
      ASSERT_EQ(::kill(launch, SIGUSR1), 0);
      wait_for_step(1);  // saved, and training goes on
    }
    const int64_t saved = newest_step();
    ASSERT_EQ(::kill(launch, signal), 0);
    const Outcome outcome = wait_for(launch);
    EXPECT_EQ(outcome.status, 4) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(signal == SIGTERM ? "SIGTERM: finishing this step, then saving and stopping"
                                                         : "SIGHUP: finishing this step, then saving and stopping"));
    EXPECT_GT(newest_step(), saved);
    expect_nobody_is_left();
  }
}

// However long a step takes: these ranks never end theirs.
TEST_P(FailingRanksTest, ASecondSignalToTheLaunchEndsAllAtOnce) {
  const pid_t launch = start_run(2, {"checkpoint.interval=0"});
  wait_for_metrics("runs/tiny", 5);
  for (int rank = 0; rank < 2; ++rank)
    for (const pid_t process : processes_of_rank(rank)) ::kill(process, SIGSTOP);
  // A request that comes twice within a moment is one.
  ASSERT_EQ(::kill(launch, SIGTERM), 0);
  ASSERT_EQ(::kill(launch, SIGTERM), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_THAT(processes_of_rank(1), testing::Not(testing::IsEmpty()));
  ASSERT_EQ(::kill(launch, SIGINT), 0);
  const Outcome outcome = wait_for(launch);
  EXPECT_EQ(outcome.status, 130) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("stopped at once; the newest checkpoint is as it was"));
  expect_nobody_is_left();
}

TEST_P(FailingRanksTest, AKilledLaunchLeavesNobodyBehind) {
  const pid_t launch = start_run(2, {"checkpoint.interval=0"});
  wait_for_metrics("runs/tiny", 5);
  ASSERT_EQ(::kill(launch, SIGKILL), 0);
  EXPECT_EQ(wait_for(launch).status, 128 + SIGKILL);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (std::chrono::steady_clock::now() < deadline && !(processes_of_rank(0).empty() && processes_of_rank(1).empty()))
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  expect_nobody_is_left();
}

INSTANTIATE_TEST_SUITE_P(Installed, FailingRanksTest, testing::Values("Open MPI", "MPICH"),
                         [](const auto& one) { return std::string(one.param) == "MPICH" ? "Mpich" : "OpenMpi"; });

}  // namespace
}  // namespace causeway::cli
