// Inputs that are wrong: each is answered with what is wrong, where, and what to do, and with status 1.
#include <sys/stat.h>

#include "tests/cli/program_under_test.h"

namespace causeway::cli {
namespace {

using BadInputTest = CliTest;

TEST_F(BadInputTest, Recipes) {
  expect_failure({"train", "absent.yaml"}, 1, {"absent.yaml", "No such file"});
  write("broken.yaml", "name: x\nmodel: [1,\n");
  expect_failure({"train", "broken.yaml"}, 1, {"broken.yaml", "not readable as YAML", "line 3"});
  write("list.yaml", "- name\n");
  expect_failure({"train", "list.yaml"}, 1, {"list.yaml", "is not a map of keys"});
  write("twice.yaml", "name: x\nname: y\n");
  expect_failure({"train", "twice.yaml"}, 1, {"twice.yaml: name: is given twice"});
  write("empty_key.yaml", "name: x\nmodel:\n  layers:\n");
  expect_failure({"train", "empty_key.yaml"}, 1, {"empty_key.yaml: model.layers: has no value"});
  write("wrong_place.yaml", "name: x\nlearning_rate: 1e-3\n");
  expect_failure({"train", "wrong_place.yaml"}, 1,
                 {"learning_rate: unknown key", "Did you mean optimizer.learning_rate?"});
  const std::vector<std::pair<std::string, std::vector<std::string>>> overrides = {
      {"modle.heads=2", {"command line: modle.heads: unknown key", "Did you mean model.heads?"}},
      {"train.steps", {"train.steps: is not of the form key=value"}},
      {"train.steps=many", {"command line: train.steps: 'many' is not an integer"}},
      {"train.steps=0", {"command line: train.steps: must be at least 1"}},
      {"optimizer.learning_rate=nan", {"'nan' is not a number"}},
      {"data.document_mask=yes", {"'yes' is not true or false"}},
      {"model.family=lama", {"unknown model family 'lama'", "Did you mean llama?"}},
      {"schedule.kind=cosin", {"'cosin'", "Did you mean cosine?"}},
      {"train.precision=bf61", {"'bf61' is not one of bf16, fp8, fp8_block, tf32, f32", "Did you mean bf16?"}},
      {"train.micro_batch_size=3", {"3 does not divide train.batch_size, 4"}},
      {"data.sequence_length=33", {"33 is longer than model.max_sequence_length, 32"}},
      {"model.heads=3", {"3 heads do not divide the width, 32", "2 or 4 heads would divide it."}},
      {"schedule.warmup_steps=31", {"a warm-up of 31 steps does not fit the run's 30"}},
  };
  for (const auto& [text, parts] : overrides) expect_failure({"train", "tiny.yaml", text}, 1, parts);
  write("empty.yaml", "");
  expect_failure({"train", "empty.yaml"}, 1, {"empty.yaml: the recipe is empty", "docs/recipes.md"});
  expect_failure({"train", "tiny.yaml", "data.path="}, 1, {"data.path: names no data", "causeway data prepare"});
  expect_failure({"train", "tiny.yaml", "name=.."}, 1, {"command line: name: '..'"});
  expect_failure({"train", "shakespear"}, 1, {"shakespear: there is no such file", "Did you mean shakespeare?"});
  EXPECT_FALSE(std::filesystem::exists(path("runs")));
}

// Sizes are checked before anything is allocated.
TEST_F(BadInputTest, RecipesThatNoMachineCanHold) {
  prepare_data();
  for (const char* command : {"train", "explain"})
    for (const char* text : {"model.layers=1000000", "model.layers=9223372036854775807",
                             "model.width=4611686018427387904", "model.vocabulary_size=9223372036854775807",
                             "train.batch_size=9223372036854775807", "data.sequence_length=9223372036854775807"})
      expect_failure({command, "tiny.yaml", text}, 1, {"command line: ", std::string(text).substr(0, 10)});
  // 550 GB of weights, and as much again twice for the optimizer.
  const std::vector<std::string> large = {"model.width=65536", "model.heads=512", "model.ffn_width=262144"};
  std::vector<std::string> train = {"train", "tiny.yaml"}, timed = {"explain", "tiny.yaml", "--time"};
  train.insert(train.end(), large.begin(), large.end());
  timed.insert(timed.end(), large.begin(), large.end());
  expect_failure(train, 1, {"weights and optimizer need", "and cpu has", "Train a smaller model"});
  expect_failure(timed, 1, {"weights and optimizer need", "and cpu has"});
  std::vector<std::string> explain = {"explain", "tiny.yaml", "--json"};
  explain.insert(explain.end(), large.begin(), large.end());
  const nlohmann::json json = run_json(explain);
  EXPECT_GT(json["parameter_bytes"].get<int64_t>(), int64_t{1} << 38);
  EXPECT_GT(json["device_memory_bytes"].get<int64_t>(), int64_t{1} << 20);
  EXPECT_GT(json["peak_bytes"].get<int64_t>(), json["device_memory_bytes"].get<int64_t>());
  EXPECT_FALSE(std::filesystem::exists(path("runs/tiny/recipe.yaml")));
}

// What training would refuse is neither planned nor explained, whichever stage is asked about.
TEST_F(BadInputTest, APipelineWhoseFirstStageTrainsNothing) {
  prepare_data();
  const std::string frozen =
      "optimizer.groups=[{pattern: 'model.embed*', frozen: true}, {pattern: 'model.layers.0.*', frozen: true}]";
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"plan", "tiny.yaml", "--hardware", "h200"},
                                             {"explain", "tiny.yaml"},
                                             {"explain", "tiny.yaml", "--stage", "1"}}) {
    std::vector<std::string> words = command;
    words.insert(words.end(), {"mesh.pp=2", frozen});
    expect_failure(words, 1,
                   {"mesh.pp: nothing is trained of what the first stage begins with",
                    "Set mesh.pp to 1, or train something of the first layers."});
  }
}

TEST_F(BadInputTest, ExplainingGenerationInOtherWays) {
  prepare_data();
  for (const char* option : {"--graph", "--passes"})
    expect_failure({"explain", "tiny.yaml", "--generate", "2", option}, 2, {"excludes --generate", option});
  expect_failure({"explain", "tiny.yaml", "--generate", "0"}, 2, {"--generate"});
  expect_failure({"explain", "tiny.yaml", "mesh.dp=2", "--generate", "2"}, 1,
                 {"text is generated on one device", "set the mesh's axes to 1"});
}

// Made to crash a program that reads it, or to hold it up.
TEST_F(BadInputTest, HostileFiles) {
  write("self.yaml", "name: x\nmodel: &m\n  layers: *m\n");
  expect_failure({"explain", "self.yaml"}, 1, {"self.yaml: not readable as YAML: an alias of a map or list"});
  write("two.yaml", "name: x\n---\nname: y\n");
  expect_failure({"explain", "two.yaml"}, 1, {"a second document begins, at line 2"});
  write("open.yaml", "name: \"x\nmodel:\n  layers: 3\n");
  expect_failure({"explain", "open.yaml"}, 1, {"a quote that is never closed, at line 1, column 7"});
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  for (const char* command : {"train", "explain"})
    expect_failure({command, "fifo"}, 1, {"fifo: cannot be read: this is a FIFO"});
  expect_failure({"bench", "import", "fifo", "--store", "store.db"}, 1, {"fifo: cannot be read: this is a FIFO"});

  const std::string deep = std::string(300'000, '[') + std::string(300'000, ']');
  write("deep.json", deep);
  expect_failure({"bench", "import", "deep.json", "--store", "store.db"}, 1, {"deep.json", "is nested too deeply"});
  write("deep.jsonl", deep);
  expect_failure({"data", "prepare", "deep.jsonl", "-o", "new"}, 1, {"deep.jsonl, line 1", "is nested too deeply"});
  std::filesystem::create_directory(path("tokenizer"));
  write("tokenizer/encoder.json", deep);
  write("tokenizer/vocab.bpe", "");
  prepare_data();
  expect_failure({"data", "prepare", "text.txt", "-o", "new", "--tokenizer", "tokenizer"}, 1,
                 {"encoder.json: the vocabulary is nested too deeply"});
  const std::string manifest = read_text_file(path("data/dataset.json"));
  write("data/dataset.json", deep);
  expect_failure({"train", "tiny.yaml"}, 1, {"data/dataset.json: the description is nested too deeply"});
  std::filesystem::remove(path("data/dataset.json"));
  ASSERT_EQ(::mkfifo(path("data/dataset.json").c_str(), 0600), 0);
  expect_failure({"train", "tiny.yaml"}, 1, {"data/dataset.json: cannot be read: this is a FIFO"});
  std::filesystem::remove(path("data/dataset.json"));
  write("data/dataset.json", manifest);

  EXPECT_EQ(run({"train", "tiny.yaml", "train.steps=1", "--quiet"}).status, 0);
  const std::string saved = "runs/tiny/checkpoints/step-00000001/manifest.json";
  write(saved, deep);
  expect_failure({"checkpoint", "inspect", "runs/tiny"}, 1, {"manifest.json", "damaged"});
  std::filesystem::remove(path(saved));
  ASSERT_EQ(::mkfifo(path(saved).c_str(), 0600), 0);
  expect_failure({"checkpoint", "inspect", "runs/tiny"}, 1, {"manifest.json", "cannot be read: this is a FIFO"});
}

TEST_F(BadInputTest, Text) {
  expect_failure({"data", "prepare", "absent.txt", "-o", "data"}, 1, {"absent.txt: the text does not exist"});
  write("empty.txt", "");
  expect_failure({"data", "prepare", "empty.txt", "-o", "data"}, 1, {"empty.txt: the inputs hold no text"});
  write("lines.jsonl", "{\"txt\": \"a\"}\n");
  expect_failure({"data", "prepare", "lines.jsonl", "-o", "data"}, 1,
                 {"lines.jsonl", "no text under \"text\"", "Did you mean --text-key txt?"});
  EXPECT_FALSE(std::filesystem::exists(path("data/dataset.json")));
  prepare_data();
  expect_failure({"data", "prepare", "text.txt", "-o", "data"}, 1,
                 {"data: the output directory already holds a dataset"});
}

TEST_F(BadInputTest, DataThatDoesNotFitTheRecipe) {
  expect_failure({"train", "tiny.yaml"}, 1, {"data: the token data does not exist", "causeway data prepare"});
  prepare_data();
  expect_failure({"train", "tiny.yaml", "data.path=dat"}, 1, {"dat: the token data does not exist", "Did you mean"});
  expect_failure({"train", "tiny.yaml", "model.vocabulary_size=64"}, 1,
                 {"\"bytes\" has 256 tokens, the model's vocabulary only 64", "at least 256"});
  write("short.txt", "too short");
  ASSERT_EQ(run({"data", "prepare", "short.txt", "-o", "short"}).status, 0);
  expect_failure({"train", "tiny.yaml", "data.path=short"}, 1, {"9 tokens do not fill one sample of 33"});
}

TEST_F(BadInputTest, ATokenBeyondTheVocabulary) {
  // nanoGPT's format: 16-bit tokens and nothing else.
  std::string bytes;
  for (int i = 0; i < 2000; ++i) bytes += {static_cast<char>(i % 50), static_cast<char>(i == 777 ? 3 : 0)};
  write("train.bin", bytes);
  expect_failure({"train", "tiny.yaml", "data.path=train.bin", "train.steps=200", "--quiet"}, 1,
                 {"token id 795 is beyond the model's vocabulary of 256", "train.bin, token 777"});
}

class BadCheckpointTest : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    prepare_data();
    const Outcome outcome = run({"train", "tiny.yaml", "--quiet"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
  }
  std::filesystem::path tensors(const std::string& step) const {
    return path("runs/tiny/checkpoints/step-" + step + "/tensors-00001-of-00001.safetensors");
  }
};

TEST_F(BadCheckpointTest, Truncated) {
  const uint64_t size = std::filesystem::file_size(tensors("00000030"));
  std::filesystem::resize_file(tensors("00000030"), 1000);
  const std::string what = "the file has 1000 bytes, but " + std::to_string(size) + " were saved";
  const Outcome verified = run({"checkpoint", "verify", "runs/tiny"});
  EXPECT_EQ(verified.status, 1);
  EXPECT_NE(verified.out.find("step-00000020: intact"), std::string::npos) << verified.out;
  EXPECT_NE(verified.out.find("step-00000030: damaged"), std::string::npos) << verified.out;
  EXPECT_NE(verified.out.find(what), std::string::npos) << verified.out;
  const std::vector<std::string> parts = {"step-00000030", "the checkpoint is damaged", what, "step-00000020"};
  expect_failure({"generate", "runs/tiny"}, 1, parts);
  expect_failure({"train", "tiny.yaml", "--resume", "30", "--quiet"}, 1, parts);
  EXPECT_EQ(run({"generate", "runs/tiny/checkpoints/step-00000020"}).status, 0);
  // Training goes on from before the damage, says so, and deletes nothing.
  const Outcome resumed = run({"train", "tiny.yaml", "train.steps=25", "--resume", "auto"});
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  for (const std::string& part : {std::string("step-00000030: the checkpoint is damaged: " + what),
                                  std::string("goes on from the checkpoint before it"), std::string("at step 20")})
    EXPECT_NE(resumed.err.find(part), std::string::npos) << resumed.err;
  EXPECT_TRUE(std::filesystem::exists(path("runs/tiny/checkpoints/superseded-step-00000030-1")));
}

TEST_F(BadCheckpointTest, OneBitFlipped) {
  std::string bytes = read_text_file(tensors("00000030"));
  bytes[bytes.size() - 100] = static_cast<char>(bytes[bytes.size() - 100] ^ 4);
  std::ofstream(tensors("00000030"), std::ios::binary) << bytes;
  const Outcome outcome = run({"checkpoint", "verify", "runs/tiny/checkpoints/step-00000030", "--json"});
  EXPECT_EQ(outcome.status, 1);
  const nlohmann::json json = nlohmann::json::parse(outcome.out);
  ASSERT_EQ(json.size(), 1u);
  EXPECT_EQ(json[0]["intact"], false);
  ASSERT_EQ(json[0]["problems"].size(), 1u) << outcome.out;
  const std::string problem = json[0]["problems"][0];
  EXPECT_NE(problem.find("do not match their hash"), std::string::npos) << problem;
  const std::string tensor = problem.substr(problem.find("tensor '"), problem.find("chunk") - problem.find("tensor '"));
  const Outcome resumed = run({"train", "tiny.yaml", "train.steps=40", "--resume", "auto", "--quiet"});
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_NE(resumed.err.find("the checkpoint is damaged: " + tensor), std::string::npos) << resumed.err;
  EXPECT_NE(resumed.err.find("goes on from the checkpoint before it"), std::string::npos) << resumed.err;
}

TEST_F(BadCheckpointTest, AllOfThem) {
  for (const char* step : {"00000020", "00000030"}) std::filesystem::resize_file(tensors(step), 1000);
  expect_failure({"train", "tiny.yaml", "train.steps=40", "--resume", "auto", "--quiet"}, 1,
                 {"the checkpoint is damaged", "step-00000030", "None of the run's checkpoints is whole"});
  EXPECT_TRUE(std::filesystem::exists(tensors("00000030")));
}

TEST_F(BadCheckpointTest, AnAttachedFile) {
  write("runs/tiny/checkpoints/step-00000030/config.json", "{}");
  const Outcome verified = run({"checkpoint", "verify", "runs/tiny"});
  EXPECT_EQ(verified.status, 1);
  EXPECT_NE(verified.out.find("config.json: the file has 2 bytes"), std::string::npos) << verified.out;
}

TEST_F(BadCheckpointTest, OfAnotherModelOrData) {
  const std::string recipe = read_text_file(path("runs/tiny/recipe.yaml"));
  expect_failure(
      {"train", "tiny.yaml", "train.steps=40", "model.width=16", "--resume", "auto", "--quiet"}, 1,
      {"step-00000030: the checkpoint is of another model", "head_dim is 16 in the checkpoint and 8 in this run"});
  expect_failure({"train", "tiny.yaml", "train.steps=40", "data.sequence_length=16", "--resume", "auto", "--quiet"}, 1,
                 {"data.sequence_length is 32 in the checkpoint and 16 in this run", "start a new run"});
  expect_failure({"train", "tiny.yaml", "train.steps=40", "train.seed=7", "--resume", "auto", "--quiet"}, 1,
                 {"train.seed is 1 in the checkpoint and 7 in this run"});
  write("other.txt", sample_text(9'000));
  ASSERT_EQ(run({"data", "prepare", "other.txt", "-o", "other"}).status, 0);
  expect_failure({"train", "tiny.yaml", "train.steps=40", "data.path=other", "--resume", "auto", "--quiet"}, 1,
                 {"the checkpoint was trained on another dataset (data.path was data and is other)"});
  EXPECT_EQ(read_text_file(path("runs/tiny/recipe.yaml")), recipe);
}

TEST_F(BadCheckpointTest, Absent) {
  expect_failure({"generate", "nowhere"}, 1, {"nowhere: holds no checkpoint"});
  expect_failure({"checkpoint", "inspect", "runs"}, 1, {"runs: holds no checkpoint", "Give a run directory"});
  expect_failure({"generate", "runs/tiny", "--prompt", ""}, 1, {"the prompt is empty"});
}

TEST_F(BadCheckpointTest, AUsedRunDirectoryIsRefused) {
  expect_failure({"train", "tiny.yaml", "--quiet"}, 1,
                 {"runs/tiny: the run directory already holds a checkpoint of step 30", "--resume auto"});
  EXPECT_EQ(run({"train", "tiny.yaml", "--resume", "auto"}).out, "nothing to do: the run is at step 30 of 30\n");
}

}  // namespace
}  // namespace causeway::cli
