// Runs whose disk, data, terminal or model fails them: what can be saved is, and what only looks on ends nothing.
#include <sys/resource.h>

#include "tests/cli/program_under_test.h"

namespace causeway::cli {
namespace {

class FailingSurroundingsTest : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    prepare_data();
  }
  void expect_parts(const std::string& text, const std::vector<std::string>& parts) const {
    for (const std::string& part : parts)
      EXPECT_NE(text.find(part), std::string::npos) << part << "\n--- not in ---\n" << text;
  }
  static int count(const std::string& text, const std::string& part) {
    int found = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
  }
};

TEST_F(FailingSurroundingsTest, ADatasetCutUnderTheRun) {
  const pid_t child = start({"train", "tiny.yaml", "train.steps=1000000", "checkpoint.interval=0", "--quiet"});
  wait_for_metrics("runs/tiny", 10);
  const std::string whole = read_text_file(path("data/train-00000.tokens"));
  std::filesystem::resize_file(path("data/train-00000.tokens"), 1000);
  const Outcome outcome = wait_for(child);
  EXPECT_EQ(outcome.status, 1);
  expect_parts(outcome.err, {"data/train-00000.tokens: the file was cut short while it was being read", "has 1000",
                             "The state after step ", " was saved to runs/tiny/checkpoints/step-"});
  EXPECT_EQ(run({"checkpoint", "verify", "runs/tiny"}).status, 0);
  const int64_t step = run_json({"checkpoint", "inspect", "runs/tiny", "--json"})["step"];
  EXPECT_GE(step, 10);
  std::ofstream(path("data/train-00000.tokens"), std::ios::binary) << whole;
  EXPECT_EQ(
      run({"train", "tiny.yaml", "train.steps=" + std::to_string(step + 2), "--resume", "auto", "--quiet"}).status, 0);
}

TEST_F(FailingSurroundingsTest, AVocabularyLargerThanTheTokenizers) {
  // Untrained and hot, one draw in seven would be of a padding id.
  const Outcome outcome =
      run({"train", "tiny.yaml", "model.vocabulary_size=300", "sampling.interval=5", "sampling.temperature=1000"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(count(outcome.err, "--- sample at step"), 5) << outcome.err;
  const nlohmann::json drawn = run_json({"generate", "runs/tiny", "--temperature", "1000", "--json"});
  for (const nlohmann::json& token : drawn["tokens"]) EXPECT_LT(token.get<int>(), 256);
}

TEST_F(FailingSurroundingsTest, ASampleThatFailsIsSaidOnce) {
  // The step is skipped from the second on: its weights, infinite by then, have no text in them.
  const Outcome outcome = run({"train", "tiny.yaml", "optimizer.learning_rate=1e38", "train.on_non_finite=skip",
                               "sampling.interval=5", "evaluation.interval=10"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(count(outcome.err, "the sample failed: "), 1) << outcome.err;
  expect_parts(outcome.err, {"the model's logits are not finite", "Training goes on without."});
}

// A limit on the size of files stands for a disk that is full; it comes down on a run under way, whose kernels are
// compiled.
TEST_F(FailingSurroundingsTest, LogsOnAFullDisk) {
  const pid_t child = start({"train", "tiny.yaml", "train.steps=2000", "checkpoint.interval=0", "--quiet"});
  wait_for_metrics("runs/tiny", 3);
  const rlimit little{20'000, 20'000};
  ASSERT_EQ(::prlimit(child, RLIMIT_FSIZE, &little, nullptr), 0);
  const Outcome outcome = wait_for(child);
  EXPECT_EQ(count(outcome.err, "runs/tiny/metrics.jsonl: File too large"), 1) << outcome.err;
  expect_parts(outcome.err, {"training goes on without this log", "the checkpoint of step 2000 was not saved"});
}

TEST_F(FailingSurroundingsTest, AFullTerminal) {
  const std::string command = "cd " + directory_.path().string() +
                              " && XDG_CACHE_HOME=" CAUSEWAY_BINARY_DIR "/test_cache " CAUSEWAY_BINARY_DIR
                              "/causeway train tiny.yaml sampling.interval=10 "
                              "evaluation.interval=10 > out 2> /dev/full";
  EXPECT_EQ(std::system(command.c_str()), 0);
  expect_parts(read_text_file(path("out")), {"finished 30 steps"});
}

// The limit comes down on a run under way: what it holds it keeps, and the staging of a save can no longer be had.
TEST_F(FailingSurroundingsTest, MemoryThatRunsOut) {
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
  GTEST_SKIP() << "the sanitizer's own address space passes any limit";
#endif
  // Nothing is left in the allocator for the save: kernels are compiled before, large blocks are asked of the system
  // one by one, and tensors of 64 MiB are more than graphs and threads leave free.
  ASSERT_EQ(run({"train", "tiny.yaml", "train.steps=1", "model.width=128", "model.vocabulary_size=131072",
                 "name=before", "--quiet"})
                .status,
            0);
  ::setenv("MALLOC_MMAP_THRESHOLD_", "131072", 1);
  const pid_t child = start({"train", "tiny.yaml", "train.steps=1000000", "model.width=128",
                             "model.vocabulary_size=131072", "checkpoint.interval=0", "--quiet"});
  ::unsetenv("MALLOC_MMAP_THRESHOLD_");
  wait_for_metrics("runs/tiny", 3);
  const rlimit little{50'000'000, 50'000'000};
  ASSERT_EQ(::prlimit(child, RLIMIT_AS, &little, nullptr), 0);
  ASSERT_EQ(::kill(child, SIGTERM), 0);
  const Outcome outcome = wait_for(child);
  EXPECT_EQ(outcome.status, 1);
  expect_parts(outcome.err, {"error: tiny: memory ran out after step ", " of 1000000", "The state after step ",
                             " was saved to runs/tiny/checkpoints/step-", "lower train.micro_batch_size"});
  EXPECT_EQ(run({"checkpoint", "verify", "runs/tiny"}).status, 0);
}

// A limit on the size of files is a disk that is full for checkpoints and not for the small files beside them.
TEST_F(FailingSurroundingsTest, ADiskThatFillsUpLeavesTheCheckpointsBefore) {
  ASSERT_EQ(run({"train", "tiny.yaml", "--quiet"}).status, 0);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{200'000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::vector<std::string> command = {"train", "tiny.yaml", "train.steps=45", "--resume", "auto", "--quiet"};
  std::vector<std::string> waiting = command;
  waiting.emplace_back("checkpoint.asynchronous=false");
  const Outcome meanwhile = run(command), outcome = run(waiting);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(meanwhile.status, 1) << meanwhile.err;
  expect_parts(meanwhile.err, {"the checkpoint of step 40 was not saved", "the checkpoint of step 45 was not saved",
                               "step-00000030, is untouched"});
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  expect_parts(outcome.err, {"the checkpoint of step 40 was not saved", "the checkpoint of step 45 was not saved",
                             "step-00000030, is untouched"});
  // Said at step 40; tried again a minute later and at the end, which is the run's own failure.
  EXPECT_EQ(count(outcome.err, "Training goes on, and the save is tried again in 60 seconds."), 1) << outcome.err;
  EXPECT_EQ(losses("runs/tiny").count("45 loss"), 1u);
  EXPECT_EQ(run({"checkpoint", "verify", "runs/tiny"}).status, 0);
  EXPECT_EQ(run_json({"checkpoint", "inspect", "runs/tiny", "--json"})["step"], 30);
  EXPECT_EQ(run({"train", "tiny.yaml", "train.steps=45", "--resume", "auto", "--quiet"}).status, 0);
}

}  // namespace
}  // namespace causeway::cli
