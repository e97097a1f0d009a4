// Hugging Face directories in and out: export, import, and runs that begin from either.
#include <sys/resource.h>

#include "tests/cli/program_under_test.h"

namespace causeway::cli {
namespace {

class ImportExportTest : public CliTest {
 protected:
  // A run of a few steps, and a recipe that begins from a directory and changes no weight.
  void train_tiny() {
    prepare_data();
    ASSERT_EQ(run({"train", "tiny.yaml", "train.steps=3", "--quiet"}).status, 0);
    write("tune.yaml", R"(name: tuned
data: {path: data, sequence_length: 32}
optimizer: {learning_rate: 1e-30, weight_decay: 0}
train: {steps: 1, batch_size: 4}
)");
  }

  static std::string fixture(const std::string& name) {
    return std::string(CAUSEWAY_SOURCE_DIR "/tests/fixtures/parity/") + name;
  }

  nlohmann::json json_in(const std::string& name) const { return nlohmann::json::parse(read_text_file(path(name))); }

  std::vector<std::string> names_in(const std::string& directory) const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path(directory)))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  // A copy of a fixture, for a test to spoil.
  void copy_fixture(const std::string& name, const std::string& to) const {
    std::filesystem::create_directory(path(to));
    for (const char* file : {"config.json", "model.safetensors"})
      std::filesystem::copy_file(fixture(name) + "/" + file, path(to) / file);
  }

  void change_config(const std::string& directory, const std::function<void(nlohmann::json&)>& change) const {
    nlohmann::json json = json_in(directory + "/config.json");
    change(json);
    write(directory + "/config.json", json.dump());
  }
};

TEST_F(ImportExportTest, AnExportIsTheModelThatATrainingBeginsFrom) {
  train_tiny();
  const nlohmann::json result = run_json({"export", "runs/tiny", "--output", "out", "--json"});
  EXPECT_EQ(result["step"], 3);
  EXPECT_EQ(result["largest_difference"], 0);
  EXPECT_EQ(names_in("out"), (std::vector<std::string>{"causeway_probe.json", "config.json", "model.safetensors",
                                                       "tokenizer.json", "tokenizer_config.json"}));
  EXPECT_EQ(json_in("out/config.json")["dtype"], "float32");
  EXPECT_TRUE(json_in("out/config.json")["eos_token_id"].is_null());  // bytes end no text
  const nlohmann::json probe = json_in("out/causeway_probe.json");
  EXPECT_EQ(probe["tokens"].size(), 32u);
  EXPECT_EQ(probe["text"], "The bridge was built in 1894, an");
  EXPECT_EQ(probe["likeliest_next"].size(), 5u);
  // There and back: the same bits, and what the configuration said besides.
  change_config("out", [](nlohmann::json& json) { json["some_key"] = {{"a", "\"b\""}}; });
  const Outcome tuned = run({"train", "tune.yaml", "model.from=out"});
  ASSERT_EQ(tuned.status, 0) << tuned.err;
  EXPECT_NE(tuned.err.find("weights: those of out\nnote: config.json has keys that are not known here and are carried "
                           "along: some_key\n"),
            std::string::npos)
      << tuned.err;
  const Outcome exported = run({"export", "runs/tuned", "--output", "again"});
  ASSERT_EQ(exported.status, 0) << exported.err;
  EXPECT_NE(exported.out.find("carried along: some_key\n"), std::string::npos) << exported.out;
  EXPECT_EQ(json_in("again/config.json"), json_in("out/config.json"));
  EXPECT_EQ(read_text_file(path("again/model.safetensors")), read_text_file(path("out/model.safetensors")));
  EXPECT_EQ(json_in("again/causeway_probe.json")["logits_hash"], probe["logits_hash"]);
  // In files of 20 KiB, put together again by an import.
  ASSERT_EQ(run({"export", "runs/tiny", "--output", "sharded", "--max-shard-size", "20K"}).status, 0);
  EXPECT_TRUE(std::filesystem::exists(path("sharded/model.safetensors.index.json")));
  const Outcome imported = run({"import", "sharded", "--output", "whole"});
  ASSERT_EQ(imported.status, 0) << imported.err;
  EXPECT_EQ(imported.out,
            "imported sharded to whole: llama, 37024 parameters, f32; 145 KiB written\n"
            "tokenizer: tokenizer.json, tokenizer_config.json\nTrain it with: model.from=whole\n");
  EXPECT_EQ(read_text_file(path("whole/model.safetensors")), read_text_file(path("out/model.safetensors")));
}

TEST_F(ImportExportTest, NarrowExportsAreCheckedUpToTheirRounding) {
  train_tiny();
  double before = 1;
  for (const char* dtype : {"bf16", "f16"}) {
    const nlohmann::json result = run_json({"export", "runs/tiny", "--output", dtype, "--dtype", dtype, "--json"});
    EXPECT_EQ(result["bytes"], 2 * 37024);
    EXPECT_GT(result["relative_difference"], 0);
    EXPECT_LT(result["relative_difference"], before / 4);
    before = result["relative_difference"];
  }
  EXPECT_EQ(json_in("bf16/config.json")["torch_dtype"], "bfloat16");
  EXPECT_LT(before, 0.001);
  // What was rounded once is not rounded again.
  ASSERT_EQ(run({"train", "tune.yaml", "model.from=bf16"}).status, 0);
  ASSERT_EQ(run({"export", "runs/tuned", "--output", "again", "--dtype", "bf16"}).status, 0);
  EXPECT_EQ(read_text_file(path("again/model.safetensors")), read_text_file(path("bf16/model.safetensors")));
  EXPECT_EQ(json_in("again/causeway_probe.json")["checkpoint"]["largest_difference"], 0);
}

TEST_F(ImportExportTest, TheTokenizerGoesWithTheModel) {
  write("text.txt", sample_text(20'000));
  ASSERT_EQ(run({"data", "prepare", "text.txt", "--output", "data", "--tokenizer",
                 CAUSEWAY_SOURCE_DIR "/tests/fixtures/gpt2_tokenizer"})
                .status,
            0);
  ASSERT_EQ(run({"train", "tiny.yaml", "model.vocabulary_size=50257", "train.steps=1", "--quiet"}).status, 0);
  const Outcome outcome = run({"export", "runs/tiny", "--output", "out"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("tokenizer: the checkpoint's\n"), std::string::npos) << outcome.out;
  EXPECT_EQ(json_in("out/config.json")["eos_token_id"], 50256);
  EXPECT_EQ(json_in("out/generation_config.json")["eos_token_id"], 50256);
  EXPECT_EQ(json_in("out/tokenizer_config.json")["eos_token"], "<|endoftext|>");
  EXPECT_EQ(read_text_file(path("out/vocab.json")),
            read_text_file(CAUSEWAY_SOURCE_DIR "/tests/fixtures/gpt2_tokenizer/encoder.json"));
  // A run without a tokenizer of its own has that of the directory that it began from.
  write("ids.bin", std::string(8000, '\1'));
  const std::string tune =
      "name: tuned\nmodel: {from: out}\ndata: {path: ids.bin, token_bytes: 2, sequence_length: 32}\n"
      "train: {steps: 1, batch_size: 4}\n";
  write("tune.yaml", tune);
  ASSERT_EQ(run({"train", "tune.yaml", "--quiet"}).status, 0);
  EXPECT_EQ(run_json({"export", "runs/tuned", "--output", "tuned", "--json"})["tokenizer"], "out");
  EXPECT_EQ(read_text_file(path("tuned/merges.txt")), read_text_file(path("out/merges.txt")));
  EXPECT_EQ(json_in("tuned/config.json")["eos_token_id"], 50256);
  expect_failure({"export", "runs/tuned", "--output", "tuned2", "--tokenizer", "runs"}, 1,
                 {"runs: holds no file of a tokenizer"});
  EXPECT_FALSE(std::filesystem::exists(path("tuned2")));
}

TEST_F(ImportExportTest, NothingIsLost) {
  train_tiny();
  ASSERT_EQ(run({"export", "runs/tiny", "--output", "out"}).status, 0);
  const std::string before = read_text_file(path("out/model.safetensors"));
  expect_failure({"export", "runs/tiny", "--output", "out"}, 1,
                 {"out: the output directory already holds a model", "--overwrite"});
  expect_failure({"export", "runs/tiny", "--output", "runs/tiny", "--overwrite"}, 1,
                 {"runs/tiny: the output directory holds something that is no part of a model: "});
  expect_failure({"export", "runs/tiny", "--output", "runs/tiny/checkpoints/step-00000003", "--overwrite"}, 1,
                 {"holds something that is no part of a model: "});
  EXPECT_EQ(run({"checkpoint", "verify", "runs/tiny"}).status, 0);
  // A full disk.
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small{50'000, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  for (const char* output : {"out", "other"})
    expect_failure({"export", "runs/tiny", "--output", output, "--overwrite"}, 1, {"model.safetensors: "});
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  EXPECT_EQ(read_text_file(path("out/model.safetensors")), before);
  EXPECT_FALSE(std::filesystem::exists(path("other")));
  EXPECT_FALSE(std::filesystem::exists(path(".out.preparing")));
  // Another model over it.
  ASSERT_EQ(run({"train", "tiny.yaml", "train.steps=5", "--resume", "auto", "--quiet"}).status, 0);
  ASSERT_EQ(run({"export", "runs/tiny", "--output", "out", "--overwrite"}).status, 0);
  EXPECT_NE(read_text_file(path("out/model.safetensors")), before);
  // A checkpoint that lost a bit of a weight: they come first, and the moments are twice as much.
  for (const auto& [name, bytes] : tensor_files("runs/tiny/checkpoints/step-00000005")) {
    std::string damaged = bytes;
    damaged[damaged.size() / 5] ^= 1;
    write("runs/tiny/checkpoints/step-00000005/" + name, damaged);
  }
  expect_failure({"export", "runs/tiny", "--output", "damaged"}, 1, {"step-00000005"});
  EXPECT_FALSE(std::filesystem::exists(path("damaged")));
  expect_failure({"export", "runs/tiny", "--output", "x", "--dtype", "i32"}, 1,
                 {"--dtype: 'i32' is no type of weights"});
  expect_failure({"export", "nowhere", "--output", "x"}, 1, {"nowhere: holds no checkpoint"});
}

TEST_F(ImportExportTest, ImportsOfEveryFamilyAreTheModel) {
  for (const char* family : {"gemma2", "gpt2", "llama", "llama3", "llama_tied", "mistral", "mixtral", "mpt", "olmo2",
                             "olmoe", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe"}) {
    const nlohmann::json result = run_json({"import", fixture(family), "--output", family, "--json"});
    EXPECT_EQ(std::string(family).substr(0, 4), result["family"].get<std::string>().substr(0, 4));
    EXPECT_EQ(result["dtypes"]["f32"], result["parameters"]);
    EXPECT_TRUE(result["unknown_keys"].empty());
    // What is absent means the family's token, and null none.
    const nlohmann::json written = json_in(std::string(family) + "/config.json");
    const nlohmann::json source = nlohmann::json::parse(read_text_file(fixture(family) + "/config.json"));
    for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"})
      EXPECT_EQ(written.value(key, nlohmann::json("absent")), source.value(key, nlohmann::json("absent"))) << key;
    // Of an import nothing is left to be changed.
    const std::string again = std::string(family) + "2";
    ASSERT_EQ(run({"import", family, "--output", again}).status, 0);
    for (const char* file : {"config.json", "model.safetensors"})
      EXPECT_EQ(read_text_file(path(again) / file), read_text_file(path(family) / file));
  }
  const nlohmann::json narrow = run_json({"import", "mpt", "--output", "narrow", "--dtype", "f16", "--json"});
  EXPECT_EQ(narrow["bytes"].get<int64_t>(), 2 * narrow["parameters"].get<int64_t>());
}

TEST_F(ImportExportTest, DirectoriesThatAreNoModelAreNamed) {
  const auto refused = [&](const std::string& directory, const std::vector<std::string>& parts) {
    expect_failure({"import", directory, "--output", "out"}, 1, parts);
    EXPECT_FALSE(std::filesystem::exists(path("out"))) << directory;
  };
  refused("nowhere", {"nowhere: there is no such directory"});
  copy_fixture("llama", "a");
  std::filesystem::remove(path("a/config.json"));
  refused("a", {"a/config.json"});
  copy_fixture("llama", "b");
  std::filesystem::remove(path("b/model.safetensors"));
  refused("b", {"b: there is no model.safetensors and no model.safetensors.index.json"});
  copy_fixture("llama", "c");
  change_config("c", [](nlohmann::json& json) { json["model_type"] = "bloom"; });
  refused("c", {"c/config.json: model_type 'bloom'", "Implemented are"});
  copy_fixture("llama", "d");
  change_config("d", [](nlohmann::json& json) { json["attention_bias"] = true; });
  refused("d", {"d/config.json: attention_bias = true", "Only false is implemented"});
  copy_fixture("llama", "e");
  change_config("e", [](nlohmann::json& json) { json["intermediate_size"] = 128; });
  refused("e", {"e: model.layers.0.mlp.gate_proj.weight: has shape [96, 64], but the model's is [128, 64]"});
  copy_fixture("llama", "f");
  change_config("f", [](nlohmann::json& json) { json["num_hidden_layers"] = 1; });
  refused("f", {"f: model.layers.1.", "the llama model of config.json has no such tensor"});
  copy_fixture("llama", "g");
  change_config("g", [](nlohmann::json& json) { json["tie_word_embeddings"] = true; });
  refused("g", {"g: lm_head.weight: differs from model.embed_tokens.weight"});
  copy_fixture("llama", "h");
  std::filesystem::resize_file(path("h/model.safetensors"), 1000);
  refused("h", {"h/model.safetensors"});
  copy_fixture("llama", "i");
  std::string bytes = read_text_file(path("i/model.safetensors"));
  bytes.replace(bytes.size() - 4, 4, std::string("\x00\x00\xc0\x7f", 4));
  write("i/model.safetensors", bytes);
  refused("i", {"holds nan, which is no weight"});
  copy_fixture("llama", "j");
  expect_failure({"import", "j", "--output", "j", "--overwrite"}, 1,
                 {"is both what is read and what is to be written"});
  EXPECT_EQ(read_text_file(path("j/model.safetensors")), read_text_file(fixture("llama") + "/model.safetensors"));
}

TEST_F(ImportExportTest, ATokenizerOfMoreTokensThanTheEmbeddingIsRefused) {
  train_tiny();
  const std::string from = "model.from=" + fixture("llama");
  expect_failure({"train", "tune.yaml", from}, 1,
                 {"data: the dataset's tokenizer (bytes) has 256 tokens, and the model of ", "an embedding of 96",
                  "Prepare the data with the tokenizer that the model was trained with."});
  const nlohmann::json explained = run_json({"explain", "tune.yaml", from, "--json"});
  EXPECT_EQ(explained["parameter_bytes"], 4 * explained["parameters"].get<int64_t>());
}

}  // namespace
}  // namespace causeway::cli
