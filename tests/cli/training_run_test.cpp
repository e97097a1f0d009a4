// Whole runs: text, training, checkpoint, text; and that a run's bits depend on its recipe alone.
#include <sched.h>

#include <cmath>

#include "tests/cli/program_under_test.h"

namespace causeway::cli {
namespace {

class TrainingRunTest : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    prepare_data();
  }
  void train(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"train", "tiny.yaml", "--quiet"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run(arguments);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
  }
};

TEST_F(TrainingRunTest, SaysWhatItsUtilizationIsMadeOf) {
  const Outcome outcome = run({"train", "tiny.yaml", "train.steps=2"});
  EXPECT_NE(outcome.err.find("mfu: n/a. No peak is given for a processor: "), std::string::npos) << outcome.err;
  std::ifstream metrics(path("runs/tiny/metrics.jsonl"));
  std::string line;
  std::getline(metrics, line);
  const nlohmann::json basis = nlohmann::json::parse(line)["mfu_basis"];
  const nlohmann::json explained = run_json({"explain", "tiny.yaml", "--json"});
  EXPECT_EQ(basis["flop_per_step"].get<double>(), explained["flops_per_token"].get<double>() * 4 * 32);
  EXPECT_EQ(basis["parameters"], explained["parameters"]);
  EXPECT_EQ(basis["attention_density"], 33.0 / 64);
  EXPECT_TRUE(basis["peak_tflops"].is_null());
  std::getline(metrics, line);
  const nlohmann::json record = nlohmann::json::parse(line);
  EXPECT_TRUE(record.contains("loss") && record.contains("mfu") && record["mfu"].is_null()) << line;
}

// On a driver that computes nothing and says that it is of an H200.
TEST_F(TrainingRunTest, UtilizationOfADeviceWhosePeakIsOnRecord) {
  std::filesystem::create_directory(path("libraries"));
  std::filesystem::create_symlink(CAUSEWAY_CUDA_STAND_IN, path("libraries/libcuda.so.1"));
  std::map<std::string, std::string> environment = environment_;
  environment["LD_LIBRARY_PATH"] = path("libraries").string();
  environment["CAUSEWAY_STAND_IN_PRODUCT"] = "NVIDIA H200";
  set_environment(environment);
  const auto train = [&](const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"train", "tiny.yaml", "name=" + name, "device=cuda", "train.steps=3"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    std::vector<nlohmann::json> records;
    std::ifstream metrics(path("runs/" + name + "/metrics.jsonl"));
    for (std::string line; std::getline(metrics, line);) records.push_back(nlohmann::json::parse(line));
    return std::pair(outcome.err, records);
  };
  const auto [text, records] = train("bf16", {});
  EXPECT_NE(text.find("mfu: FLOP of a step / (seconds of a step x peak)"), std::string::npos) << text;
  EXPECT_NE(text.find(" parameters; attention to 0.5156 of all pairs"), std::string::npos) << text;
  EXPECT_NE(text.find("peak: 989.5 TFLOP/s (bf16 dense): NVIDIA H200 "), std::string::npos) << text;
  ASSERT_GE(records.size(), 4u);
  const double flop = records[0]["mfu_basis"]["flop_per_step"], peak = records[0]["mfu_basis"]["peak_tflops"];
  EXPECT_EQ(peak, 989.5);
  for (size_t i = 1; i <= 3; ++i)
    EXPECT_DOUBLE_EQ(records[i]["mfu"].get<double>(), flop / (records[i]["step_seconds"].get<double>() * peak * 1e12));

  EXPECT_EQ(records[0]["device_target"], "nvptx:sm_90a::16");

  const auto [fp8_text, fp8] = train("fp8", {"train.precision=fp8", "data.document_mask=true"});
  EXPECT_NE(fp8_text.find("attention to at most 0.5156 of all pairs (data decides)"), std::string::npos) << fp8_text;
  EXPECT_GT(fp8[0]["mfu_basis"]["peak_tflops"].get<double>(), 989.5);
  EXPECT_LT(fp8[0]["mfu_basis"]["peak_tflops"].get<double>(), 1979);
  EXPECT_EQ(fp8[0]["mfu_basis"]["flop_per_step"], flop);
  EXPECT_GT(fp8[1]["mfu_at_most"].get<double>(), 0);
  EXPECT_FALSE(fp8[1].contains("mfu"));
}

TEST_F(TrainingRunTest, FromTextToText) {
  const nlohmann::json result = run_json({"train", "tiny.yaml", "train.steps=150", "--json"});
  EXPECT_EQ(result["step"], 150);
  EXPECT_EQ(result["interrupted"], false);
  EXPECT_EQ(result["skipped_steps"], 0);
  EXPECT_EQ(result["checkpoint"], "runs/tiny/checkpoints/step-00000150");
  const std::map<std::string, double> found = losses("runs/tiny");
  // 150 steps, each with loss and gradient norm, and one evaluation.
  EXPECT_EQ(found.size(), 301u);
  EXPECT_NEAR(found.at("1 loss"), std::log(256.0), 0.3);
  EXPECT_LT(found.at("150 validation_loss"), 1.5);
  EXPECT_EQ(found.at("150 validation_loss"), result["validation_loss"].get<double>());

  const nlohmann::json inspected = run_json({"checkpoint", "inspect", "runs/tiny", "--json"});
  EXPECT_EQ(inspected["step"], 150);
  EXPECT_EQ(inspected["model"]["model_type"], "llama");
  EXPECT_EQ(inspected["data"]["samples_consumed"], 600);
  EXPECT_EQ(inspected["tensors"]["model.embed_tokens.weight"]["shape"], (std::vector<int>{256, 32}));
  EXPECT_EQ(inspected["tensors"]["moment2.lm_head.weight"]["dtype"], "f32");
  const nlohmann::json verified = run_json({"checkpoint", "verify", "runs/tiny", "--json"});
  ASSERT_EQ(verified.size(), 2u);  // checkpoint.keep
  for (const nlohmann::json& entry : verified) EXPECT_EQ(entry["intact"], true);

  const std::vector<std::string> generate = {"generate", "runs/tiny", "--prompt", "the river ",
                                             "--tokens", "40",        "--json"};
  const nlohmann::json written = run_json(generate);
  EXPECT_EQ(written["tokens"].size(), 40u);
  EXPECT_EQ(written["text"].get<std::string>().size(), 40u);
  EXPECT_EQ(run_json(generate), written);
  // Nothing but letters of the text it was trained on, after so short a training.
  const std::string letters = sample_text(5'000);
  for (const char letter : written["text"].get<std::string>()) EXPECT_NE(letters.find(letter), std::string::npos);
  EXPECT_TRUE(run({"generate", "runs/tiny", "--prompt", "the river ", "--tokens", "5"}).out.starts_with("the river "));
}

TEST_F(TrainingRunTest, OneSeedGivesTheSameBits) {
  train({"name=a"});
  train({"name=b"});
  train({"name=c", "train.seed=2"});
  EXPECT_EQ(losses("runs/a"), losses("runs/b"));
  EXPECT_NE(losses("runs/a"), losses("runs/c"));
  const auto a = tensor_files("runs/a/checkpoints/step-00000030"), b = tensor_files("runs/b/checkpoints/step-00000030");
  EXPECT_FALSE(a.empty());
  EXPECT_TRUE(a == b);
  EXPECT_FALSE(a == tensor_files("runs/c/checkpoints/step-00000030"));
}

TEST_F(TrainingRunTest, EveryFamilyLearns) {
  const std::vector<std::vector<std::string>> variants = {
      {"model.family=gpt2", "model.ffn_width=128", "model.dropout=0.1"},
      {"model.family=mistral", "model.kv_heads=1", "model.sliding_window=8", "train.recompute=block"},
      {"model.family=mpt", "model.ffn_width=96", "data.document_mask=true", "train.recompute=selective"},
      {"model.family=llama", "model.tie_embeddings=true", "train.precision=f32", "data.sequence_length=31"},
      {"model.family=qwen3", "model.kv_heads=1", "model.head_dim=24"},
      {"model.family=olmo2", "train.recompute=block"},
      {"model.family=gemma2", "model.ffn_width=96", "model.sliding_window=8", "train.recompute=selective"},
  };
  for (size_t i = 0; i < variants.size(); ++i) {
    const std::string name = "variant" + std::to_string(i);
    std::vector<std::string> arguments = {"name=" + name, "train.steps=100"};
    arguments.insert(arguments.end(), variants[i].begin(), variants[i].end());
    train(arguments);
    const std::map<std::string, double> found = losses("runs/" + name);
    EXPECT_NEAR(found.at("1 loss"), std::log(256.0), 0.5) << name;
    EXPECT_LT(found.at("100 validation_loss"), 2.0) << name;
    EXPECT_EQ(run_json({"generate", "runs/" + name, "--tokens", "5", "--json"})["tokens"].size(), 5u);
  }
}

TEST_F(TrainingRunTest, ALossThatIsNotFiniteStopsTheRunAndNamesItsOrigin) {
  // Large enough for the loss to overflow, small enough for the weights not to.
  expect_failure({"train", "tiny.yaml", "optimizer.learning_rate=1e30", "checkpoint.interval=0", "--quiet"}, 1,
                 {"the first value that is not finite is made by", "Lower the learning rate", "on_non_finite=skip",
                  "was saved to runs/tiny/checkpoints/step-0000000"});
  EXPECT_EQ(run({"checkpoint", "verify", "runs/tiny"}).status, 0);
  const std::vector<std::string> wild = {"train", "tiny.yaml", "name=wild", "optimizer.learning_rate=1e38", "--quiet"};
  expect_failure(wild, 1,
                 {"the first value that is not finite is made by", "not finite themselves and were not saved"});
  EXPECT_FALSE(std::filesystem::exists(path("runs/wild/checkpoints")));
  std::vector<std::string> skipping = wild;
  skipping.insert(skipping.end(), {"train.on_non_finite=skip", "name=skipping", "--json"});
  const nlohmann::json result = run_json(skipping);
  EXPECT_EQ(result["step"], 30);
  EXPECT_GT(result["skipped_steps"], 0);
  // Skipped steps change nothing: the weights that were saved are numbers.
  EXPECT_EQ(run({"checkpoint", "verify", "runs/skipping"}).status, 0);
}

// Where steps that are not finite are skipped, each step is finished before the next one begins.
TEST_F(TrainingRunTest, AGpuThatRunsAheadGivesTheSameRun) {
  const std::vector<std::string> common = {"device=emulator:sm_90a", "train.steps=7", "evaluation.interval=3",
                                           "checkpoint.interval=4", "schedule.warmup_steps=2"};
  std::vector<std::string> ahead = {"name=ahead"}, in_turn = {"name=in_turn", "train.on_non_finite=skip"};
  ahead.insert(ahead.end(), common.begin(), common.end());
  in_turn.insert(in_turn.end(), common.begin(), common.end());
  train(ahead);
  train(in_turn);
  const std::map<std::string, double> found = losses("runs/ahead");
  EXPECT_EQ(found, losses("runs/in_turn"));
  EXPECT_TRUE(found.contains("7 loss") && found.contains("6 validation_loss"));
  for (const std::string step : {"step-00000004", "step-00000007"})
    EXPECT_TRUE(tensor_files("runs/ahead/checkpoints/" + step) == tensor_files("runs/in_turn/checkpoints/" + step))
        << step;
  // A loss that is not finite, found while the next step is under way.
  expect_failure({"train", "tiny.yaml", "name=wild", "device=emulator:sm_90a", "optimizer.learning_rate=1e30",
                  "schedule.warmup_steps=0", "checkpoint.interval=0", "--quiet"},
                 1,
                 {"the first value that is not finite is made by", "was saved to runs/wild/checkpoints/step-0000000"});
  EXPECT_EQ(run({"checkpoint", "verify", "runs/wild"}).status, 0);
}

TEST_F(TrainingRunTest, OneThreadAndManyGiveTheSameBits) {
  cpu_set_t all, one;
  CPU_ZERO(&one);
  ASSERT_EQ(::sched_getaffinity(0, sizeof all, &all), 0);
  if (CPU_COUNT(&all) == 1) GTEST_SKIP() << "this process may use one processor only";
  train({"name=many"});
  int first = 0;
  while (!CPU_ISSET(first, &all)) ++first;
  CPU_SET(first, &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);  // the program inherits it
  train({"name=one"});
  ASSERT_EQ(::sched_setaffinity(0, sizeof all, &all), 0);
  EXPECT_EQ(losses("runs/many"), losses("runs/one"));
  EXPECT_TRUE(tensor_files("runs/many/checkpoints/step-00000030") ==
              tensor_files("runs/one/checkpoints/step-00000030"));
}

TEST_F(TrainingRunTest, MicroBatchesGiveTheSameLossUpToRounding) {
  train({"name=whole", "train.precision=f32"});
  train({"name=split", "train.precision=f32", "train.micro_batch_size=1"});
  const std::map<std::string, double> whole = losses("runs/whole"), split = losses("runs/split");
  ASSERT_EQ(whole.size(), split.size());
  for (const auto& [name, value] : whole) EXPECT_NEAR(split.at(name), value, 2e-3 * std::abs(value)) << name;
}

TEST_F(TrainingRunTest, ResumedAfterASignalItEqualsTheUninterruptedRun) {
  const std::vector<std::string> common = {"train.steps=2000", "checkpoint.interval=0", "model.dropout=0.1",
                                           "sampling.prompt=a b's"};
  std::vector<std::string> whole = {"name=whole"}, parts = {"train", "tiny.yaml", "name=parts"};
  whole.insert(whole.end(), common.begin(), common.end());
  train(whole);
  parts.insert(parts.end(), common.begin(), common.end());

  const pid_t child = start(parts);
  wait_for_metrics("runs/parts", 5);
  ASSERT_EQ(::kill(child, SIGTERM), 0);
  const Outcome stopped = wait_for(child);
  EXPECT_EQ(stopped.status, 4) << stopped.err;
  EXPECT_NE(stopped.out.find("stopped at step "), std::string::npos) << stopped.out;
  EXPECT_NE(
      stopped.out.find("Continue with: causeway train tiny.yaml name=parts train.steps=2000 checkpoint.interval=0 "
                       "model.dropout=0.1 'sampling.prompt=a b'\\''s' --resume auto\n"),
      std::string::npos)
      << stopped.out;
  const int64_t step = run_json({"checkpoint", "inspect", "runs/parts", "--json"})["step"];
  EXPECT_GE(step, 5);
  EXPECT_LT(step, 2000);

  parts.insert(parts.end(), {"--resume", "auto", "--quiet"});
  const Outcome resumed = run(parts);
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(losses("runs/whole"), losses("runs/parts"));
  const auto expected = tensor_files("runs/whole/checkpoints/step-00002000");
  EXPECT_FALSE(expected.empty());
  EXPECT_TRUE(expected == tensor_files("runs/parts/checkpoints/step-00002000"));
}

TEST_F(TrainingRunTest, KilledAtAnyInstantItGoesOnFromTheLastCheckpoint) {
  train({"name=whole", "checkpoint.interval=0", "train.steps=300"});
  for (const std::string asynchronous : {"true", "false"}) {
    const std::string name = "parts_" + asynchronous, directory = "runs/" + name;
    for (int part = 1; part <= 3; ++part) {
      const pid_t child =
          start({"train", "tiny.yaml", "name=" + name, "train.steps=300", "checkpoint.interval=1",
                 "checkpoint.keep=300", "checkpoint.asynchronous=" + asynchronous, "--resume", "auto", "--quiet"});
      wait_for_metrics(directory, 40 * part);
      ASSERT_EQ(::kill(child, SIGKILL), 0);
      EXPECT_EQ(wait_for(child).status, 128 + SIGKILL);
      EXPECT_EQ(run({"checkpoint", "verify", directory}).status, 0);
    }
    train({"name=" + name, "train.steps=300", "--resume", "auto"});
    EXPECT_EQ(losses("runs/whole"), losses(directory));
    EXPECT_TRUE(tensor_files("runs/whole/checkpoints/step-00000300") ==
                tensor_files(directory + "/checkpoints/step-00000300"));
  }
}

TEST_F(TrainingRunTest, ResumedFromACheckpointItEqualsTheUninterruptedRun) {
  train({"name=whole"});
  train({"name=parts", "train.steps=20", "schedule.kind=constant"});
  train({"name=constant", "schedule.kind=constant"});
  train({"name=parts", "schedule.kind=constant", "--resume", "auto"});
  EXPECT_TRUE(tensor_files("runs/constant/checkpoints/step-00000030") ==
              tensor_files("runs/parts/checkpoints/step-00000030"));
  EXPECT_FALSE(tensor_files("runs/whole/checkpoints/step-00000030") ==
               tensor_files("runs/parts/checkpoints/step-00000030"));
}

TEST_F(TrainingRunTest, WorksWithoutAKernelCache) {
  train({"name=cached"});
  write("file", "not a directory");
  for (const std::string& place : {path("file/cache").string(), std::string("/proc/causeway")}) {
    set_environment({{"XDG_CACHE_HOME", place}, {"HOME", place}});
    const Outcome outcome = run({"train", "tiny.yaml", "name=uncached", "run_directory=uncached", "--quiet"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_NE(outcome.err.find(place), std::string::npos) << outcome.err;
    EXPECT_TRUE(tensor_files("runs/cached/checkpoints/step-00000030") ==
                tensor_files("uncached/checkpoints/step-00000030"));
    std::filesystem::remove_all(path("uncached"));
    const nlohmann::json doctor = run_json({"doctor", "--json"});
    EXPECT_NE(doctor["kernel_cache"]["problem"].get<std::string>().find("compiled in every run"), std::string::npos);
  }
}

}  // namespace
}  // namespace causeway::cli
