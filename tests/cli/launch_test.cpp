// `causeway launch`, and runs of several processes that are refused before their first step, under each MPI that is
// installed.
#include <gmock/gmock.h>
#include <unistd.h>

#include "tests/cli/program_under_test.h"
#include "tests/communicator/mpi_launcher.h"

namespace causeway::cli {
namespace {

using testing::HasSubstr;

// Of the metrics of a run.
std::map<int64_t, double> losses_in(const std::filesystem::path& metrics) {
  std::map<int64_t, double> losses;
  std::ifstream file(metrics);
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json record = nlohmann::json::parse(line);
    if (record.contains("loss")) losses[record["step"].get<int64_t>()] = record["loss"].get<double>();
  }
  return losses;
}

class LaunchTest : public CliTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    launcher_ = find_launcher(GetParam());
    if (!launcher_) GTEST_SKIP() << GetParam() << " is not installed: its launcher was not found.";
    // The only mpirun that is found is this MPI's.
    std::filesystem::create_directory(path("bin"));
    link_launcher(*launcher_, path("bin/mpirun"));
  }
  Outcome shell(const std::string& line) { return run_shell("export PATH=$PWD/bin:$PATH\n" + line); }
  // Of processes that the launcher itself starts, each with its own words.
  Outcome launch_each(const std::vector<std::string>& words) {
    std::string line = launcher_->command;
    for (size_t i = 0; i < words.size(); ++i) line += (i == 0 ? " -n 1 $causeway " : " : -n 1 $causeway ") + words[i];
    return shell("timeout 100 " + line);
  }
  std::map<int64_t, double> losses_by_step(const std::string& run) const {
    return losses_in(path(run + "/metrics.jsonl"));
  }
  bool is_mpich() const { return std::string(GetParam()) == "MPICH"; }
  void expect_one_sentence(const Outcome& outcome, const std::string& sentence) {
    EXPECT_NE(outcome.status, 0);
    EXPECT_NE(outcome.status, 124);
    // MPICH's launcher waits for processes that have not begun MPI; each then says what it found.
    if (is_mpich()) {
      EXPECT_THAT(outcome.err, HasSubstr(sentence));
      return;
    }
    EXPECT_EQ(count_of(outcome.err, sentence), 1u) << outcome.err;
    EXPECT_EQ(count_of(outcome.err, "error: "), 1u) << outcome.err;
  }

  std::optional<MpiLauncher> launcher_;
};

TEST_P(LaunchTest, StartsProcessesThatTrainTogether) {
  prepare_data();
  const Outcome outcome =
      shell("$causeway launch -n 2 -- train tiny.yaml mesh.fsdp=2 train.steps=4 checkpoint.interval=2 --quiet --json");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const nlohmann::json json = nlohmann::json::parse(outcome.out, nullptr, false);
  EXPECT_EQ(json["step"], 4) << outcome.out;
  EXPECT_EQ(losses("runs/tiny").count("4 loss"), 1u);
}

// Two stages, then four processes, and on with one: the losses of a run without stages.
TEST_P(LaunchTest, StagesTrainTogether) {
  prepare_data();
  const std::string four =
      " train.batch_size=4 train.micro_batch_size=1 model.layers=2 train.precision=f32 schedule.kind=constant";
  const Outcome one = shell("$causeway train tiny.yaml name=one train.steps=4 --quiet" + four);
  ASSERT_EQ(one.status, 0) << one.err;
  const Outcome two = shell(
      "$causeway launch -n 2 -- train tiny.yaml name=two mesh.pp=2 train.pipeline_schedule=zero_bubble train.steps=2 "
      "--quiet" +
      four);
  ASSERT_EQ(two.status, 0) << two.err;
  const Outcome more = shell(
      "$causeway launch -n 4 -- train tiny.yaml name=two mesh.pp=2 mesh.tp=2 train.steps=4 --resume auto --quiet" +
      four);
  ASSERT_EQ(more.status, 0) << more.err;
  const std::map<int64_t, double> expected = losses_by_step("runs/one"), staged = losses_by_step("runs/two");
  ASSERT_EQ(staged.size(), 4u);
  for (const auto& [step, loss] : staged) EXPECT_NEAR(loss, expected.at(step), 1e-5 * loss) << step;
}

TEST_P(LaunchTest, TheExitStatusPassesThrough) {
  const Outcome none = shell("$causeway launch -n 2 -- doctor --help");
  EXPECT_EQ(none.status, 0) << none.err;
  EXPECT_EQ(count_of(none.out, "Example: causeway doctor"), 2u) << none.out;
  const Outcome usage = shell("$causeway launch -n 2 train --nonsense");
  EXPECT_EQ(usage.status, 2) << usage.err;
  EXPECT_THAT(usage.err, HasSubstr("error: causeway train has no option --nonsense"));
}

TEST_P(LaunchTest, AMeshOfAnotherSizeIsOneSentence) {
  prepare_data();
  expect_one_sentence(shell("$causeway launch -n 2 -- train tiny.yaml"),
                      "2 processes were started, but the recipe has no mesh");
  expect_one_sentence(shell("$causeway launch -n 2 -- train tiny.yaml mesh.fsdp=2 mesh.dp=2"),
                      "the mesh has 4 ranks (dp 2 x fsdp 2), but 2 processes were started");
}

TEST_P(LaunchTest, RanksWithDifferentRecipesAreNamed) {
  prepare_data();
  expect_one_sentence(launch_each({"train tiny.yaml mesh.dp=2", "train tiny.yaml mesh.dp=2 train.seed=7"}),
                      "rank 1 has another recipe than rank 0: train.seed: ");
}

// As on two machines that share no files: it is found before the first step, not at the first save.
TEST_P(LaunchTest, RanksWithRunDirectoriesOfTheirOwnAreNamed) {
  prepare_data();
  for (const char* machine : {"a", "b"}) std::filesystem::create_directory(path(machine));
  const std::string train = " $causeway train $PWD/tiny.yaml mesh.dp=2 data.path=$PWD/data";
  const Outcome outcome =
      shell("timeout 100 " + launcher_->command + " -n 1 -wdir $PWD/a" + train + " : -n 1 -wdir $PWD/b" + train);
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_EQ(count_of(outcome.err, "error: "), 1u) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("does not see the run directory of rank 0"));
  EXPECT_THAT(outcome.err, HasSubstr("rank 1 (on "));
  EXPECT_FALSE(std::filesystem::exists(path("a/runs/tiny/metrics.jsonl")));
}

TEST_P(LaunchTest, AProcessThatFailsBeforeItMeetsTheOthersIsHeard) {
  if (is_mpich()) GTEST_SKIP() << "MPICH's launcher does not end processes that wait for one which has not begun MPI.";
  prepare_data();
  const Outcome outcome = launch_each({"train tiny.yaml mesh.dp=2", "train no_such_file.yaml mesh.dp=2"});
  EXPECT_NE(outcome.status, 0);
  EXPECT_NE(outcome.status, 124) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("rank 1: error: "));
  EXPECT_THAT(outcome.err, HasSubstr("no_such_file.yaml"));
}

INSTANTIATE_TEST_SUITE_P(Installed, LaunchTest, testing::Values("Open MPI", "MPICH"),
                         [](const auto& one) { return std::string(one.param) == "MPICH" ? "Mpich" : "OpenMpi"; });

using LaunchCommandTest = CliTest;

TEST_F(LaunchCommandTest, SaysWhatIsMissing) {
  const Outcome none = run_shell("PATH=/nowhere $causeway launch -n 2 -- doctor");
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.err, HasSubstr("no MPI is installed: neither mpirun nor mpiexec was found on PATH"));
  EXPECT_THAT(none.err, HasSubstr("openmpi-bin or mpich"));
  expect_failure({"launch", "-n", "2", "--", "trian", "tiny.yaml"}, 1,
                 {"'trian' is no command of causeway that can be launched", "Did you mean train?"});
  expect_failure({"launch", "-n", "2", "--", "launch", "-n", "2"}, 1, {"'launch' is no command"});
  expect_failure({"launch", "-n", "0", "--", "doctor"}, 2, {"See causeway launch --help"});
  expect_failure({"launch", "doctor"}, 2, {"See causeway launch --help"});
}

TEST_F(LaunchCommandTest, AProcessThatShouldBeOneOfSeveralDoesNotRunAlone) {
  prepare_data();
  const std::map<std::string, std::string> usual = environment_;
  const auto with = [&](std::map<std::string, std::string> more) {
    more.insert(usual.begin(), usual.end());
    set_environment(more);
  };
  with({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}});
  expect_failure({"train", "tiny.yaml"}, 1,
                 {"4 processes were to be started (SLURM_NTASKS), but this one knows of no other", "--mpi=pmix"});
  with({{"CAUSEWAY_PROCESSES", "2"}});
  expect_failure({"train", "tiny.yaml", "mesh.dp=2"}, 1,
                 {"2 processes were to be started (CAUSEWAY_PROCESSES), but this one knows of no other"});
  set_environment(usual);
  expect_failure({"train", "tiny.yaml", "mesh.dp=2"}, 1,
                 {"the mesh has 2 ranks (dp 2), but this process was started alone", "causeway launch -n 2"});
  EXPECT_FALSE(std::filesystem::exists(path("runs")));
}

TEST_F(LaunchCommandTest, DoctorNamesTheLauncherAndTheVariable) {
  const Outcome outcome = run({"doctor"});
  EXPECT_THAT(outcome.out, HasSubstr("launcher      "));
  EXPECT_THAT(outcome.out, HasSubstr("CAUSEWAY_PROCESSES says how many processes a run should have"));
  EXPECT_THAT(run_shell("PATH=/nowhere $causeway doctor").out, HasSubstr("launcher      none"));
}

}  // namespace
}  // namespace causeway::cli
