// Runs that train adapters: their checkpoints, exports and what is refused.
#include "tests/cli/program_under_test.h"

namespace causeway::cli {
namespace {

class AdapterRunTest : public CliTest {
 protected:
  // A base model of bytes, and a recipe that trains adapters of it.
  void make_base() {
    prepare_data();
    ASSERT_EQ(run({"train", "tiny.yaml", "train.steps=3", "--quiet"}).status, 0);
    ASSERT_EQ(run({"export", "runs/tiny", "--output", "base"}).status, 0);
    write("tune.yaml", R"(name: tuned
model: {from: base}
data: {path: data, sequence_length: 32}
lora: {rank: 2, targets: [q_proj, v_proj, mlp.up_proj], dropout: 0.1}
optimizer: {learning_rate: 1e-2, weight_decay: 0}
schedule: {kind: constant}
train: {steps: 6, batch_size: 4}
checkpoint: {interval: 3, asynchronous: false}
log: {tensorboard: false}
)");
  }

  std::string weights_of(const std::string& adapter) const {
    return read_text_file(path(adapter + "/adapter_model.safetensors"));
  }
};

TEST_F(AdapterRunTest, CheckpointsHoldAdaptersAloneAndResumeToTheSameBits) {
  make_base();
  const Outcome whole = run({"train", "tune.yaml"});
  ASSERT_EQ(whole.status, 0) << whole.err;
  EXPECT_NE(whole.err.find("adapters: lora of rank 2 on "), std::string::npos) << whole.err;
  EXPECT_NE(whole.err.find("all else stays as it is in base"), std::string::npos) << whole.err;
  const nlohmann::json manifest =
      nlohmann::json::parse(read_text_file(path("runs/tuned/checkpoints/step-00000006/manifest.json")));
  for (const auto& [name, tensor] : manifest["tensors"].items())
    EXPECT_NE(name.find(".lora_"), std::string::npos) << name;
  ASSERT_EQ(run({"export", "runs/tuned", "--output", "adapter"}).status, 0);
  ASSERT_EQ(run({"train", "tune.yaml", "name=parts", "train.steps=3", "--quiet"}).status, 0);
  const Outcome resumed = run({"train", "tune.yaml", "name=parts", "--resume", "auto"});
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  ASSERT_EQ(run({"export", "runs/parts", "--output", "again"}).status, 0);
  EXPECT_EQ(weights_of("again"), weights_of("adapter"));

  // Of a run that begins with it and changes nothing: the same.
  ASSERT_EQ(run({"train", "tune.yaml", "name=copy", "lora.from=adapter", "optimizer.learning_rate=1e-30",
                 "train.steps=1", "--quiet"})
                .status,
            0);
  ASSERT_EQ(run({"export", "runs/copy", "--output", "copied"}).status, 0);
  EXPECT_EQ(weights_of("copied"), weights_of("adapter"));
  expect_failure({"train", "tune.yaml", "name=other", "lora.from=adapter", "lora.rank=3"}, 1,
                 {"lora.rank: is 3 here and 2 in adapter", "lora.from says what the adapters are"});
  expect_failure({"train", "tune.yaml", "--resume", "auto", "train.steps=9", "lora.alpha=7"}, 1,
                 {"lora.alpha is 4 in the checkpoint and 7 in this run"});
}

// The run, its adapter, the model with it: one text.
TEST_F(AdapterRunTest, RunAdapterAndMergedModelGiveTheSameText) {
  make_base();
  for (const char* kind : {"lora", "dora"}) {
    const std::string name = std::string("run_") + kind, adapter = std::string("adapter_") + kind,
                      merged = std::string("merged_") + kind;
    const Outcome trained = run({"train", "tune.yaml", "name=" + name, std::string("lora.kind=") + kind,
                                 "train.precision=f32", "optimizer.learning_rate=0.1"});
    ASSERT_EQ(trained.status, 0) << trained.err;
    const Outcome exported = run({"export", "runs/" + name, "--output", adapter});
    ASSERT_EQ(exported.status, 0) << exported.err;
    EXPECT_NE(exported.out.find("an adapter of /"), std::string::npos) << exported.out;
    EXPECT_NE(exported.out.find("bit for bit"), std::string::npos) << exported.out;
    const Outcome whole = run({"export", "runs/" + name, "--output", merged, "--merged"});
    ASSERT_EQ(whole.status, 0) << whole.err;
    const auto text_of = [&](const std::string& model) {
      const Outcome text = run({"generate", model, "--prompt", "the river", "--tokens", "24", "--temperature", "0"});
      EXPECT_EQ(text.status, 0) << text.err;
      return text.out;
    };
    const std::string text = text_of("runs/" + name);
    EXPECT_EQ(text_of(adapter), text);
    EXPECT_EQ(text_of(merged), text);
    EXPECT_NE(read_text_file(path(merged + "/model.safetensors")), read_text_file(path("base/model.safetensors")));
  }
}

TEST_F(AdapterRunTest, WhatDoesNotFitIsRefused) {
  make_base();
  ASSERT_EQ(run({"train", "tune.yaml", "train.steps=3", "--quiet"}).status, 0);
  ASSERT_EQ(run({"export", "runs/tuned", "--output", "adapter"}).status, 0);
  expect_failure({"train", "tune.yaml", "name=a", "model.from=", "model.vocabulary_size=256"}, 1,
                 {"lora.rank: trains adapters of a model, and no model is named"});
  expect_failure({"train", "tune.yaml", "name=a", "lora.targets=q_prj"}, 1,
                 {"lora.targets: 'q_prj' names no matrix in the layers of llama", "Did you mean q_proj?"});
  expect_failure({"train", "tune.yaml", "name=a", "lora.rank=0"}, 1, {"has no effect without lora.rank"});
  expect_failure({"train", "tune.yaml", "name=a", "train.precision=fp8"}, 1, {"not yet in 8 bits"});
  expect_failure({"train", "tune.yaml", "name=a", "optimizer.groups=[{pattern: '*lora_A*', frozen: true}]"}, 1,
                 {"optimizer.groups: with adapters all of the model is frozen"});
  expect_failure({"export", "runs/tiny", "--output", "x", "--merged"}, 1, {"the run has no adapters"});
  // Another model where the base was.
  ASSERT_EQ(run({"train", "tiny.yaml", "name=second", "train.steps=4", "--quiet"}).status, 0);
  ASSERT_EQ(run({"export", "runs/second", "--output", "other"}).status, 0);
  expect_failure({"train", "tune.yaml", "model.from=other", "--resume", "auto", "train.steps=4"}, 1,
                 {"the checkpoint's adapters were trained on another base model", "than that of other"});
  expect_failure({"train", "tune.yaml", "name=b", "model.from=other", "lora.from=adapter", "train.steps=4"}, 1,
                 {"the adapters of adapter were trained on another base model"});
  std::filesystem::rename(path("base"), path("gone"));
  expect_failure({"generate", "runs/tuned"}, 1, {"the base model of the adapters is not in /", "/base any more"});
  std::filesystem::rename(path("other"), path("base"));
  expect_failure({"generate", "runs/tuned"}, 1, {"were trained on another base model"});
  expect_failure({"export", "runs/tuned", "--output", "x"}, 1, {"were trained on another base model"});
}

// A base in 4 or 8 bits: the same weights whenever it is read, in the run, in a resumed one, beside the adapter and in
// the merged model, which is told to be another than the base's own.
TEST_F(AdapterRunTest, QuantizedBaseIsTheSameEverywhere) {
  make_base();
  const auto text_of = [&](const std::string& model) {
    const Outcome text = run({"generate", model, "--prompt", "the river", "--tokens", "24", "--temperature", "0"});
    EXPECT_EQ(text.status, 0) << text.err;
    return text.out;
  };
  for (const std::string base : {"nf4", "f8"}) {
    const std::string form = "lora.base=" + base, name = "run_" + base;
    const std::vector<std::string> options = {form, "train.precision=f32", "optimizer.learning_rate=0.1"};
    const auto train = [&](std::vector<std::string> arguments) {
      arguments.insert(arguments.begin(), {"train", "tune.yaml"});
      arguments.insert(arguments.end(), options.begin(), options.end());
      return run(arguments);
    };
    const Outcome trained = train({"name=" + name});
    ASSERT_EQ(trained.status, 0) << trained.err;
    EXPECT_NE(trained.err.find("the base in " + base), std::string::npos) << trained.err;
    ASSERT_EQ(train({"name=parts_" + base, "train.steps=3", "--quiet"}).status, 0);
    ASSERT_EQ(train({"name=parts_" + base, "--resume", "auto", "--quiet"}).status, 0);
    const Outcome exported = run({"export", "runs/" + name, "--output", "adapter_" + base});
    ASSERT_EQ(exported.status, 0) << exported.err;
    EXPECT_NE(exported.out.find("base: the adapter was trained on it in " + base), std::string::npos) << exported.out;
    ASSERT_EQ(run({"export", "runs/parts_" + base, "--output", "again_" + base}).status, 0);
    EXPECT_EQ(weights_of("again_" + base), weights_of("adapter_" + base));
    const Outcome merged = run({"export", "runs/" + name, "--output", "merged_" + base, "--merged"});
    ASSERT_EQ(merged.status, 0) << merged.err;
    EXPECT_NE(merged.out.find("base: its matrices are what they were trained as, " + base), std::string::npos);
    EXPECT_NE(merged.out.find("is lost"), std::string::npos) << merged.out;
    const std::string text = text_of("runs/" + name);
    EXPECT_EQ(text_of("adapter_" + base), text);
    EXPECT_EQ(text_of("merged_" + base), text);
    expect_failure({"train", "tune.yaml", "name=" + name, "--resume", "auto", "train.steps=9"}, 1,
                   {"lora.base is \"" + base + "\" in the checkpoint and \"unquantized\" in this run"});
    // Who goes on with the adapter says how the base lies.
    ASSERT_EQ(run({"train", "tune.yaml", "name=on_" + base, "lora.from=adapter_" + base, form, "train.steps=1"}).status,
              0);
  }
  expect_failure({"train", "tune.yaml", "name=a", "lora.base=int4"}, 1, {"lora.base", "nf4"});
  expect_failure({"train", "tune.yaml", "name=a", "load_in_4bit=true"}, 1, {"lora.base"});
}

// Run and adapter find their base from anywhere.
TEST_F(AdapterRunTest, AnotherWorkingDirectoryGivesTheSameText) {
  make_base();
  ASSERT_EQ(run({"train", "tune.yaml", "train.steps=3", "--quiet"}).status, 0);
  ASSERT_EQ(run({"export", "runs/tuned", "--output", "adapter"}).status, 0);
  const nlohmann::json config = nlohmann::json::parse(read_text_file(path("adapter/adapter_config.json")));
  const std::filesystem::path base = config["base_model_name_or_path"].get<std::string>();
  EXPECT_TRUE(base.is_absolute()) << base;
  EXPECT_TRUE(std::filesystem::equivalent(base, path("base"))) << base;
  const std::string here =
      run({"generate", "runs/tuned", "--prompt", "the river", "--tokens", "8", "--temperature", "0"}).out;
  ASSERT_NE(here, "");
  std::filesystem::create_directory(path("elsewhere"));
  for (const char* model : {"../runs/tuned", "../adapter"}) {
    const Outcome there = run_shell(std::string("cd elsewhere && $causeway generate ") + model +
                                    " --prompt 'the river' --tokens 8 --temperature 0");
    EXPECT_EQ(there.status, 0) << there.err;
    EXPECT_EQ(there.out, here) << model;
  }
  const Outcome exported = run_shell("cd elsewhere && $causeway export ../runs/tuned --output ../again");
  EXPECT_EQ(exported.status, 0) << exported.err;
  // That the recipe has a relative path is no change.
  const Outcome resumed = run({"train", "tune.yaml", "train.steps=4", "--resume", "auto"});
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(resumed.err.find("model.from is"), std::string::npos) << resumed.err;
}

TEST_F(AdapterRunTest, OptionsOfWholeModelsAreRefused) {
  make_base();
  ASSERT_EQ(run({"train", "tune.yaml", "train.steps=1", "--quiet"}).status, 0);
  expect_failure({"export", "runs/tuned", "--output", "x", "--tokenizer", "base"}, 1,
                 {"--tokenizer: has no effect on an adapter", "Leave it out, or say --merged."});
  expect_failure({"export", "runs/tuned", "--output", "x", "--max-shard-size", "5G"}, 1,
                 {"--max-shard-size: has no effect on an adapter", "Leave it out, or say --merged."});
  const Outcome merged =
      run({"export", "runs/tuned", "--output", "x", "--merged", "--tokenizer", "base", "--max-shard-size", "1G"});
  EXPECT_EQ(merged.status, 0) << merged.err;
}

TEST_F(AdapterRunTest, StepAndTextGenerationAreExplained) {
  make_base();
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{"--time"}, {"--generate", "1"}, {"--generate", "1", "--time"}}) {
    std::vector<std::string> words = {"explain", "tune.yaml"};
    words.insert(words.end(), options.begin(), options.end());
    const Outcome explained = run(words);
    EXPECT_EQ(explained.status, 0) << ::testing::PrintToString(words) << explained.err;
  }
  expect_failure({"explain", "tune.yaml", "--generate", "1", "lora.targets=q_prj"}, 1,
                 {"lora.targets: 'q_prj' names no matrix in the layers of llama"});
}

// Lists for several families of models, as PEFT's users write them.
TEST_F(AdapterRunTest, TargetModulesOfOtherFamiliesAreLeftOut) {
  make_base();
  ASSERT_EQ(run({"train", "tune.yaml", "train.steps=3", "--quiet"}).status, 0);
  ASSERT_EQ(run({"export", "runs/tuned", "--output", "adapter"}).status, 0);
  const std::vector<std::string> generate = {"generate", "adapter", "--prompt",      "the river",
                                             "--tokens", "8",       "--temperature", "0"};
  const std::string text = run(generate).out;
  const std::string file = "adapter/adapter_config.json";
  nlohmann::json config = nlohmann::json::parse(read_text_file(path(file)));
  config["target_modules"] = {"c_attn", "q_proj", "v_proj", "mlp.up_proj", "query_key_value"};
  write(file, config.dump());
  const Outcome more = run(generate);
  EXPECT_EQ(more.status, 0) << more.err;
  EXPECT_EQ(more.out, text);
  config["target_modules"] = {"c_attn", "query_key_value"};
  write(file, config.dump());
  expect_failure(
      generate, 1,
      {"adapter_config.json: target_modules = [\"c_attn\",\"query_key_value\"] names no matrix of the weights"});
}

// What PEFT may say and is not here.
TEST_F(AdapterRunTest, OptionsOfPeftThatAreNotHereAreNamed) {
  make_base();
  ASSERT_EQ(run({"train", "tune.yaml", "train.steps=1", "--quiet"}).status, 0);
  ASSERT_EQ(run({"export", "runs/tuned", "--output", "adapter"}).status, 0);
  const std::string file = "adapter/adapter_config.json";
  const nlohmann::json good = nlohmann::json::parse(read_text_file(path(file)));
  EXPECT_EQ(good["target_modules"], (nlohmann::json{"mlp.up_proj", "q_proj", "v_proj"}));
  for (const auto& [key, value] : std::map<std::string, nlohmann::json>{{"bias", "lora_only"},
                                                                        {"modules_to_save", {"lm_head"}},
                                                                        {"rank_pattern", {{"q_proj", 4}}},
                                                                        {"init_lora_weights", "pissa"},
                                                                        {"use_qalora", true},
                                                                        {"something_new", 3},
                                                                        {"peft_type", "LOHA"}}) {
    nlohmann::json bad = good;
    bad[key] = value;
    write(file, bad.dump());
    expect_failure({"generate", "adapter"}, 1, {key + " = "});
  }
}

}  // namespace
}  // namespace causeway::cli
