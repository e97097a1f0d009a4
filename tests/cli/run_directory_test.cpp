// A run directory as its owner, its readers and whoever moves it see it.
#include "tests/cli/program_under_test.h"

namespace causeway::cli {
namespace {

class RunDirectoryTest : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    prepare_data();
  }
  // start() sends the output of every program to the same files, so what else runs goes through a shell here.
  int run_beside(const std::string& arguments) const {
    return WEXITSTATUS(
        std::system(("cd " + directory_.path().string() +
                     " && XDG_CACHE_HOME=" CAUSEWAY_BINARY_DIR "/test_cache " CAUSEWAY_BINARY_DIR "/causeway " +
                     arguments + " >other.out 2>other.err")
                        .c_str()));
  }
  // Until the child, which this program has become, has a handler for the signal; false where it ends before.
  static bool wait_until_caught(pid_t child, int signal) {
    while (true) {
      std::ifstream status("/proc/" + std::to_string(child) + "/status");
      bool is_there = false;
      for (std::string line; std::getline(status, line);) {
        is_there = is_there || (line.starts_with("State:\t") && line[7] != 'Z');
        if (line.starts_with("SigCgt:") && (std::stoull(line.substr(8), nullptr, 16) >> (signal - 1) & 1) != 0)
          return true;
      }
      if (!is_there) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  void expect_parts(const std::string& text, const std::vector<std::string>& parts) const {
    for (const std::string& part : parts)
      EXPECT_NE(text.find(part), std::string::npos) << part << "\n--- not in ---\n" << text;
  }
};

TEST_F(RunDirectoryTest, HasOneOwner) {
  const pid_t owner = start({"train", "tiny.yaml", "train.steps=1000000", "checkpoint.interval=5", "--quiet"});
  wait_for_metrics("runs/tiny", 20);
  for (const char* resume : {"", " --resume auto"}) {
    EXPECT_EQ(run_beside(std::string("train tiny.yaml --quiet") + resume), 1);
    expect_parts(
        read_text_file(path("other.err")),
        {"runs/tiny: another run owns this run directory: process " + std::to_string(owner) + " on ", "Stop it first"});
  }
  // Reading needs no owner.
  EXPECT_EQ(run_beside("generate runs/tiny --tokens 3"), 0) << read_text_file(path("other.err"));
  EXPECT_EQ(run_beside("checkpoint inspect runs/tiny"), 0) << read_text_file(path("other.err"));
  ASSERT_EQ(::kill(owner, SIGHUP), 0);
  const Outcome stopped = wait_for(owner);
  EXPECT_EQ(stopped.status, 4) << stopped.err;
  expect_parts(stopped.err, {"SIGHUP: finishing this step, then saving and stopping"});
  EXPECT_EQ(run({"checkpoint", "verify", "runs/tiny"}).status, 0);
  const int64_t step = run_json({"checkpoint", "inspect", "runs/tiny", "--json"})["step"];
  EXPECT_EQ(
      run_json({"train", "tiny.yaml", "train.steps=" + std::to_string(step + 1), "--resume", "auto", "--json"})["step"],
      step + 1);
}

// As in an archive of somebody else's run.
TEST_F(RunDirectoryTest, LinksOutOfItAreNotFollowed) {
  for (const char* name : {"metrics.jsonl", "trace.json", "run.lock", "tensorboard", "checkpoints"}) {
    const std::filesystem::path run = path("runs/tiny"), mine = path("mine");
    std::filesystem::remove_all(run);
    std::filesystem::create_directories(run);
    std::filesystem::create_directories(mine / "step-00000001");
    write("mine/step-00000001/notes", "{\"step\":9}\n");
    const bool is_file = std::string(name).find('.') != std::string::npos;
    std::filesystem::create_symlink(is_file ? mine / "step-00000001/notes" : mine, run / name);
    expect_failure({"train", "tiny.yaml", "log.tensorboard=true"}, 1,
                   {std::string("runs/tiny/") + name + ": a link here leads out of runs/tiny, to ",
                    "nothing is written or deleted through it", "Remove the link."});
    EXPECT_EQ(read_text_file(mine / "step-00000001/notes"), "{\"step\":9}\n") << name;
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(mine), std::filesystem::directory_iterator()), 1);
  }
}

// Every step replaces the one checkpoint that is kept.
TEST_F(RunDirectoryTest, IsReadWhileItsRunPrunes) {
  write("other.txt", sample_text(200));
  const pid_t owner = start({"train", "tiny.yaml", "train.steps=1000000", "checkpoint.interval=1", "checkpoint.keep=1",
                             "evaluation.interval=0", "--quiet"});
  wait_for_metrics("runs/tiny", 10);
  for (int i = 0; i < 4; ++i)
    for (const char* command :
         {"generate runs/tiny --tokens 2", "evaluate runs/tiny --text other.txt", "checkpoint inspect runs/tiny",
          "checkpoint verify runs/tiny", "export runs/tiny --output exported --overwrite"}) {
      EXPECT_EQ(run_beside(command), 0) << command << "\n" << read_text_file(path("other.err"));
      EXPECT_EQ(read_text_file(path("other.out")).find("damaged"), std::string::npos) << command;
    }
  ASSERT_EQ(::kill(owner, SIGTERM), 0);
  EXPECT_EQ(wait_for(owner).status, 4);
}

// Not even before there is a run.
TEST_F(RunDirectoryTest, ARequestToSaveEndsNoCommand) {
  const pid_t child = start({"train", "tiny.yaml", "train.steps=200", "checkpoint.interval=0"});
  ASSERT_TRUE(wait_until_caught(child, SIGUSR1));
  ASSERT_EQ(::kill(child, SIGUSR1), 0);
  const Outcome outcome = wait_for(child);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  expect_parts(outcome.err, {"saved runs/tiny/checkpoints/step-0000000", "; training stood still for"});
  const pid_t sampled = start({"generate", "runs/tiny", "--tokens", "20"});
  ASSERT_TRUE(wait_until_caught(sampled, SIGUSR1));
  ::kill(sampled, SIGUSR1);
  EXPECT_EQ(wait_for(sampled).status, 0);
}

TEST_F(RunDirectoryTest, AStopBeforeTheFirstStepHasNothingToSave) {
  const pid_t child = start({"train", "tiny.yaml", "model.layers=12", "--json"});
  ASSERT_TRUE(wait_until_caught(child, SIGTERM));
  ASSERT_EQ(::kill(child, SIGTERM), 0);
  const Outcome stopped = wait_for(child);
  EXPECT_EQ(stopped.status, 4) << stopped.err;
  const nlohmann::json json = nlohmann::json::parse(stopped.out);
  EXPECT_EQ(json["interrupted"], true);
  EXPECT_EQ(json["step"], 0);
  EXPECT_EQ(json["checkpoint"], "");
  expect_parts(stopped.err, {"SIGTERM: stopping before the first step"});
  EXPECT_EQ(run({"train", "tiny.yaml", "model.layers=12", "train.steps=1", "--resume", "auto"}).status, 0);
}

TEST_F(RunDirectoryTest, AnInterruptIsAnsweredAndHasAStatusOfItsOwn) {
  const pid_t child = start({"train", "tiny.yaml", "train.steps=1000000", "--json"});
  wait_for_metrics("runs/tiny", 5);
  ASSERT_EQ(::kill(child, SIGINT), 0);
  const Outcome stopped = wait_for(child);
  EXPECT_EQ(stopped.status, 4);
  expect_parts(stopped.err, {"interrupted: finishing this step, then saving and stopping; Ctrl-C again stops at once"});
  EXPECT_EQ(nlohmann::json::parse(stopped.out)["interrupted"], true);
  expect_parts(run({"train", "--help"}).out, {"4 stopped by a signal with its progress", "SIGHUP"});
}

TEST_F(RunDirectoryTest, ContainsWhatIsNeededToUseTheModelElsewhere) {
  const std::string vocabulary = CAUSEWAY_SOURCE_DIR "/tests/fixtures/gpt2_tokenizer";
  ASSERT_EQ(run({"data", "prepare", "text.txt", "--output", "words", "--tokenizer", vocabulary}).status, 0);
  const Outcome trained =
      run({"train", "tiny.yaml", "--quiet", "data.path=words", "model.vocabulary_size=50304", "train.steps=2"});
  ASSERT_EQ(trained.status, 0) << trained.err;
  for (const char* file : {"config.json", "vocab.json", "merges.txt"})
    EXPECT_TRUE(std::filesystem::exists(path("runs/tiny/checkpoints/step-00000002") / file)) << file;
  const nlohmann::json config =
      nlohmann::json::parse(read_text_file(path("runs/tiny/checkpoints/step-00000002/config.json")));
  EXPECT_EQ(config["model_type"], "llama");
  std::filesystem::remove_all(path("words"));
  std::filesystem::create_directories(path("else/where"));
  std::filesystem::rename(path("runs/tiny"), path("else/where/moved"));
  // Hardly trained and hot: any id is drawn, but none beyond the tokenizer's 50257.
  const nlohmann::json written =
      run_json({"generate", "else/where/moved", "--tokens", "300", "--temperature", "1000", "--json"});
  ASSERT_GT(written["tokens"].size(), 0u);
  for (const nlohmann::json& token : written["tokens"]) EXPECT_LT(token.get<int>(), 50257);
  const std::string alone = path("else/checkpoint").string();
  std::filesystem::rename(path("else/where/moved/checkpoints/step-00000002"), alone);
  EXPECT_EQ(run({"generate", alone, "--tokens", "3"}).status, 0);
}

TEST_F(RunDirectoryTest, ACheckpointOfDataWithoutATokenizerSaysSo) {
  std::string tokens;
  for (int i = 0; i < 2000; ++i) tokens += {static_cast<char>(1 + i % 50), 0};
  write("train.bin", tokens);
  ASSERT_EQ(run({"train", "tiny.yaml", "--quiet", "data.path=train.bin", "train.steps=2"}).status, 0);
  expect_failure({"generate", "runs/tiny"}, 1, {"the checkpoint holds no tokenizer", "--tokenizer"});
  EXPECT_EQ(run({"generate", "runs/tiny", "--tokenizer", "bytes"}).status, 0);
}

TEST_F(RunDirectoryTest, EndOfTextIsNotPrinted) {
  std::string lines;
  for (int i = 0; i < 400; ++i) lines += "{\"text\": \"a\"}\n";
  write("lines.jsonl", lines);
  const std::string vocabulary = CAUSEWAY_SOURCE_DIR "/tests/fixtures/gpt2_tokenizer";
  ASSERT_EQ(run({"data", "prepare", "lines.jsonl", "--output", "words", "--tokenizer", vocabulary}).status, 0);
  ASSERT_EQ(run({"train", "tiny.yaml", "--quiet", "data.path=words", "model.vocabulary_size=50304"}).status, 0);
  const std::vector<std::string> generate = {"generate", "runs/tiny", "--prompt", "a", "--temperature", "0"};
  EXPECT_EQ(run(generate).out, "a\n");
  std::vector<std::string> with_json = generate;
  with_json.push_back("--json");
  const nlohmann::json written = run_json(with_json);
  EXPECT_EQ(written["text"], "");
  EXPECT_EQ(written["tokens"], std::vector<int>{50256});
}

TEST_F(RunDirectoryTest, ResumesFromAStepOrAPath) {
  ASSERT_EQ(run({"train", "tiny.yaml", "--quiet", "schedule.kind=constant", "train.precision=f32"}).status, 0);
  expect_failure({"train", "tiny.yaml", "--resume", "25", "--quiet"}, 1,
                 {"runs/tiny: the run has no checkpoint of step 25", "It has checkpoints of the steps 30, 20."});
  expect_failure({"train", "tiny.yaml", "--resume", "data", "--quiet"}, 1, {"data: holds no checkpoint"});
  const auto thirty = tensor_files("runs/tiny/checkpoints/step-00000030");

  const Outcome from_path = run({"train", "tiny.yaml", "name=other", "--resume", "runs/tiny/checkpoints/step-00000020",
                                 "schedule.kind=constant", "train.precision=f32"});
  EXPECT_EQ(from_path.status, 0) << from_path.err;
  expect_parts(from_path.err, {"resuming from runs/tiny/checkpoints/step-00000020 at step 20"});
  EXPECT_TRUE(tensor_files("runs/other/checkpoints/step-00000030") == thirty);

  const Outcome from_step = run(
      {"train", "tiny.yaml", "--resume", "20", "optimizer.learning_rate=1e-4", "train.batch_size=2", "train.steps=25"});
  EXPECT_EQ(from_step.status, 0) << from_step.err;
  expect_parts(from_step.err, {"resuming from runs/tiny/checkpoints/step-00000020 at step 20",
                               "changed since then: optimizer.learning_rate is 0.0001, was 0.005\n",
                               "changed since then: train.batch_size is 2, was 4\n",
                               "changed since then: train.precision is \"bf16\", was \"f32\"\n",
                               "changed since then: schedule.kind is \"cosine\", was \"constant\"\n"});
  // What the run had left behind is not deleted, and not taken for its past when its steps come before the next save.
  EXPECT_TRUE(tensor_files("runs/tiny/checkpoints/superseded-step-00000030-1") == thirty);
  ASSERT_EQ(run({"train", "tiny.yaml", "--resume", "20", "train.steps=40", "checkpoint.interval=0", "--quiet"}).status,
            0);
  for (const char* name : {"step-00000020", "step-00000040", "superseded-step-00000025-1"})
    EXPECT_TRUE(std::filesystem::exists(path("runs/tiny/checkpoints") / name)) << name;
  EXPECT_FALSE(std::filesystem::exists(path("runs/tiny/checkpoints/step-00000025")));
}

TEST_F(RunDirectoryTest, TheFirstLinesAndTheRecordsSayWhatIsGoingOn) {
  const Outcome outcome = run(
      {"train", "tiny.yaml", "checkpoint.interval=0", "log.interval=5", "sampling.interval=10", "sampling.tokens=5"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  expect_parts(outcome.err, {"device: cpu (", ", chosen by auto", "with the program itself",
                             "checkpoints: every 15 minutes; the last 2 kept", "in runs/tiny"});
  expect_parts(read_text_file(path("runs/tiny/recipe.yaml")), {"# device: auto chose cpu\n", "device: \"auto\""});
  ASSERT_EQ(run({"train", "tiny.yaml", "name=each", "--quiet"}).status, 0);
  const std::map<std::string, double> each = losses("runs/each");
  EXPECT_EQ(each.count("17 loss"), 1u);  // log.interval is 1

  std::ifstream file(path("runs/tiny/metrics.jsonl"));
  std::vector<nlohmann::json> records;
  for (std::string line; std::getline(file, line);) records.push_back(nlohmann::json::parse(line));
  // How MFU is counted, the first step, every fifth, the evaluation, and the checkpoint at the end.
  ASSERT_EQ(records.size(), 10u);
  EXPECT_TRUE(records[0].contains("mfu_basis"));
  // What came before the first step, and how long each took.
  for (const char* phase : {"device", "data", "weights", "resume", "compile"})
    EXPECT_GE(records[0]["start_seconds"].value(phase, -1.0), 0) << phase;
  const nlohmann::json& tenth = records[3];
  EXPECT_EQ(tenth["step"], 10);
  EXPECT_EQ(tenth["device"], "cpu");
  EXPECT_EQ(tenth["tokens"], 10 * 4 * 32);
  EXPECT_GT(tenth["time"].get<double>(), 1.6e9);
  EXPECT_GT(tenth["elapsed_seconds"].get<double>(), 0);
  EXPECT_EQ(tenth["mean_steps"], 5);
  double mean = 0;
  for (int step = 6; step <= 10; ++step) mean += each.at(std::to_string(step) + " loss") / 5;
  EXPECT_NEAR(tenth["mean_loss"].get<double>(), mean, 1e-12);
  EXPECT_NEAR(records.back()["tokens"].get<double>(), 30 * 4 * 32, 0);
  // The training text makes 563 windows of 32 targets.
  EXPECT_NEAR(tenth["epoch"].get<double>(), 40.0 / 563, 1e-9);
  std::string events;
  for (const auto& entry : std::filesystem::directory_iterator(path("runs/tiny/tensorboard")))
    events += read_text_file(entry.path());
  expect_parts(events, {"hparams", "optimizer.learning_rate", "sample"});
}

TEST_F(RunDirectoryTest, AMemoryFigureThatTheProcessKeepsTo) {
  const Outcome outcome = run({"train", "tiny.yaml", "train.steps=3", "model.width=256", "model.vocabulary_size=8192",
                               "model.layers=4", "model.heads=4", "train.precision=f32"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const size_t end = outcome.err.find(" MiB in all with the program itself");
  ASSERT_NE(end, std::string::npos) << outcome.err;
  const size_t begin = outcome.err.rfind(' ', end - 1) + 1;
  const double stated = std::stod(outcome.err.substr(begin, end - begin)) * 1024 * 1024;
  std::ifstream file(path("runs/tiny/metrics.jsonl"));
  std::string line;
  for (std::string next; std::getline(file, next);)
    if (next.find("memory_bytes") != std::string::npos) line = next;
  const auto held = nlohmann::json::parse(line)["memory_bytes"].get<double>();
  EXPECT_LT(held, 1.2 * stated);
  EXPECT_GT(held, 0.8 * stated);
}

}  // namespace
}  // namespace causeway::cli
