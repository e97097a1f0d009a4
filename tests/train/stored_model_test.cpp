// Runs that begin with the weights of another run: those that its export holds, bit for bit, on any mesh.
#include "causeway/train/stored_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/formats/safetensors.h"
#include "causeway/train/checkpoint/checkpoint.h"
#include "causeway/train/checkpoint/run_checkpoint.h"
#include "causeway/train/hugging_face/export_checkpoint.h"
#include "causeway/train/trainer.h"
#include "tests/fixtures/error_message.h"
#include "tests/fixtures/temporary_directory.h"
#include "tests/train/training_ranks.h"

namespace causeway::train {
namespace {

using ::testing::HasSubstr;

const std::string kStoredModelFixture = CAUSEWAY_SOURCE_DIR "/tests/fixtures/parity/llama";

class StoredModels : public testing::Test {
 protected:
  StoredModels() {
    std::string ids;  // below the fixture's vocabulary
    for (uint32_t i = 0, x = 1; i < 6000; ++i, x = x * 1664525 + 1013904223)
      ids.push_back(static_cast<char>((x >> 24) % 64));
    std::ofstream(directory_ / "ids.bin", std::ios::binary) << ids;
  }

  std::string path(const std::string& name) const { return (directory_ / name).string(); }

  Recipe recipe(const std::string& name, const std::vector<std::string>& overrides) const {
    std::vector<std::string> all = {"name=" + name, "run_directory=" + path(name), "data.path=" + path("ids.bin")};
    all.insert(all.end(), overrides.begin(), overrides.end());
    return parse_recipe(R"(
data: {token_bytes: 1, sequence_length: 16}
train: {batch_size: 8, steps: 2, precision: f32}
optimizer: {learning_rate: 1e-2}
checkpoint: {interval_minutes: 0}
log: {tensorboard: false}
)",
                        "recipe", all);
  }

  static TrainResult run(const Recipe& recipe, const ResumeChoice& resume = {}) {
    TrainResult first;
    on_ranks(recipe.mesh, [&] {
      const TrainResult result = train_in_context(recipe, {.resume = resume, .quiet = true, .watch_signals = false});
      if (result.rank == 0) first = result;
    });
    return first;
  }

  std::string error_of(const std::string& name, const std::vector<std::string>& overrides,
                       const ResumeChoice& resume = {}) const {
    try {
      run(recipe(name, overrides), resume);
    } catch (const Error& error) {
      return error.where() + ": " + error.message() + " | " + error.hint();
    }
    return "no error";
  }

  // Of a run's newest checkpoint, in f32.
  std::string exported(const std::filesystem::path& checkpoint, const std::string& name, bool merged = false) const {
    const ContextScope scope(Context::open("cpu"));
    ExportOptions options;
    options.checkpoint = checkpoint;
    options.output = directory_ / name;
    options.merged = merged;
    export_checkpoint(options);
    return path(name);
  }

  // A run that changes nothing: its checkpoint has the weights that it began with.
  static std::vector<std::string> unchanged(std::vector<std::string> further) {
    further.insert(further.end(), {"optimizer.learning_rate=1e-30", "optimizer.weight_decay=0", "train.steps=1"});
    return further;
  }

  static void expect_same_bits(const std::filesystem::path& checkpoint, const std::string& hugging_face) {
    const CheckpointReader reader(checkpoint);
    const SafetensorsModel expected(hugging_face);
    for (const std::string& name : expected.names()) {
      std::vector<std::byte> found(expected.data(name).size());
      reader.read(name, found);
      // The rate of unchanged() moves zeros, which a base in 4 or 8 bits has, by as much as it is; of all else no bit.
      size_t different = 0;
      for (size_t i = 0; i + sizeof(float) <= found.size(); i += sizeof(float)) {
        float here = 0, there = 0;
        std::memcpy(&here, found.data() + i, sizeof(float));
        std::memcpy(&there, expected.data(name).data() + i, sizeof(float));
        if (here != there && !(there == 0 && std::abs(here) < 1e-29F)) ++different;
      }
      EXPECT_EQ(different, 0u) << name;
    }
  }

  TemporaryDirectory directory_;
};

TEST_F(StoredModels, ARunGivesTheWeightsOfItsExport) {
  const TrainResult first = run(recipe("first", {"model.from=" + kStoredModelFixture, "mesh.fsdp=2"}));
  const std::string copy = exported(first.checkpoint, "copy");
  EXPECT_NE(read_text_file(copy + "/model.safetensors"), read_text_file(kStoredModelFixture + "/model.safetensors"));
  for (const char* mesh : {"mesh.dp=1", "mesh.fsdp=2", "mesh.tp=2", "mesh.pp=2"}) {
    const Recipe next = recipe(std::string("run_") + mesh, unchanged({"model.from=" + path("first"), mesh}));
    // Which checkpoint it is stays said where the first run goes on.
    EXPECT_EQ(next.model_from, first.checkpoint.string());
    expect_same_bits(run(next).checkpoint, copy);
  }
  const Recipe of_checkpoint = recipe("checkpoint", unchanged({"model.from=" + first.checkpoint.string()}));
  expect_same_bits(run(of_checkpoint).checkpoint, copy);
  EXPECT_EQ(recipe("copy", {"model.from=" + copy}).model, of_checkpoint.model);
  // Neither optimizer nor step come along: a run from it takes the steps that one from the export takes.
  const TrainResult on = run(recipe("on", {"model.from=" + path("first")})),
                    again = run(recipe("again", {"model.from=" + copy}));
  EXPECT_EQ(on.step, 2);
  EXPECT_EQ(on.last_loss, again.last_loss);
}

TEST_F(StoredModels, AveragedWeightsAreTheAverage) {
  const TrainResult first = run(recipe("first", {"model.from=" + kStoredModelFixture, "optimizer.average_decay=0.5"}));
  const std::string copy = exported(first.checkpoint, "copy");
  expect_same_bits(run(recipe("next", unchanged({"model.from=" + path("first")}))).checkpoint, copy);
  // What is trained beside it is another model.
  const CheckpointReader reader(first.checkpoint);
  const SafetensorsModel average(copy);
  const std::string name = "model.layers.0.mlp.up_proj.weight";
  std::vector<std::byte> trained(average.data(name).size());
  reader.read("trained." + name, trained);
  EXPECT_NE(std::memcmp(trained.data(), average.data(name).data(), trained.size()), 0);
}

// Base and adapters as one, also where the base is a run of its own, and on ranks that hold parts of a matrix. Of a
// base that was quantized all matrices of the layers are what they were multiplied as, also those without an adapter.
TEST_F(StoredModels, AdaptersAreMerged) {
  const TrainResult base = run(recipe("base", {"model.from=" + kStoredModelFixture}));
  for (const auto& [kind, form] :
       {std::pair{"lora", "unquantized"}, {"dora", "unquantized"}, {"lora", "nf4"}, {"dora", "f8"}}) {
    const std::string name = fmt::format("tuned_{}_{}", kind, form);
    const TrainResult tuned =
        run(recipe(name, {"model.from=" + path("base"), "lora.rank=2", "lora.targets=q_proj,down_proj",
                          fmt::format("lora.kind={}", kind), fmt::format("lora.base={}", form)}));
    const CheckpointReader checkpoint(tuned.checkpoint);
    EXPECT_EQ(checkpoint_base(checkpoint), StoredModel::open(base.checkpoint)->identity());
    EXPECT_EQ(checkpoint_recipe(checkpoint).model_from, base.checkpoint.string());
    const std::string merged = exported(tuned.checkpoint, name + "_merged", true);
    for (const char* mesh : {"mesh.dp=1", "mesh.fsdp=2", "mesh.tp=2"})
      expect_same_bits(run(recipe(name + mesh, unchanged({"model.from=" + path(name), mesh}))).checkpoint, merged);
  }
}

// Whose files have matrices as [in, out].
TEST_F(StoredModels, AdaptersOfGpt2AreMerged) {
  const std::string gpt2 = CAUSEWAY_SOURCE_DIR "/tests/fixtures/parity/gpt2";
  for (const char* form : {"unquantized", "nf4"}) {
    const std::string name = std::string("tuned_") + form;
    const TrainResult tuned =
        run(recipe(name, {"model.from=" + gpt2, "lora.rank=2", std::string("lora.base=") + form}));
    const std::string merged = exported(tuned.checkpoint, name + "_merged", true);
    expect_same_bits(run(recipe(name + "_next", unchanged({"model.from=" + path(name)}))).checkpoint, merged);
  }
}

TEST_F(StoredModels, ABaseIsQuantizedFromARunAsFromItsExport) {
  const TrainResult base = run(recipe("base", {"model.from=" + kStoredModelFixture}));
  const std::string copy = exported(base.checkpoint, "copy");
  // nf4's blocks of the fixture's rows of 96 are not dealt out.
  for (const auto& [form, mesh] : {std::pair{"lora.base=nf4", "mesh.fsdp=1"}, {"lora.base=f8", "mesh.fsdp=2"}}) {
    std::vector<double> losses;
    for (const std::string& from : {path("base"), copy})
      losses.push_back(
          run(recipe(fmt::format("next_{}_{}", form, losses.size()), {"model.from=" + from, "lora.rank=2", form, mesh}))
              .last_loss);
    EXPECT_EQ(losses[0], losses[1]) << form;
  }
}

TEST_F(StoredModels, ARewardModelBeginsWithALanguageModel) {
  const TrainResult first = run(recipe("first", {"model.from=" + kStoredModelFixture}));
  const std::string copy = exported(first.checkpoint, "copy");
  const ContextScope scope(Context::open("cpu"));
  const ModelConfig config = recipe("x", {"model.from=" + copy}).model.with_score_head(true).resolved();
  const auto of_run = LanguageModel::create(config, uint64_t{1}),
             of_export = LanguageModel::create(config, uint64_t{1});
  StoredModel::open(first.checkpoint)->load(*of_run, kScoreWeight);
  StoredModel::open(copy)->load(*of_export, kScoreWeight);
  for (const Parameter& parameter : of_run->parameters()) {
    std::vector<std::byte> found(static_cast<size_t>(parameter.tensor.local_bytes())), expected(found.size());
    parameter.tensor.read_bytes(found);
    of_export->parameter(parameter.name).tensor.read_bytes(expected);
    EXPECT_EQ(found, expected) << parameter.name;
  }
  EXPECT_THAT(message_of([&] { StoredModel::open(first.checkpoint)->load(*of_run); }), HasSubstr("of another model"));
}

TEST_F(StoredModels, AdaptersGoOnFromARun) {
  run(recipe("tuned", {"model.from=" + kStoredModelFixture, "lora.rank=2"}));
  const Recipe next =
      recipe("next", unchanged({"model.from=" + kStoredModelFixture, "lora.from=" + path("tuned"), "mesh.tp=2"}));
  EXPECT_EQ(next.adapter.rank, 2);
  const CheckpointReader first(next.adapter_from), second(run(next).checkpoint);
  for (const std::string& name : first.names()) {
    if (name.find(".lora_") == std::string::npos || name.starts_with("moment")) continue;
    std::vector<float> a(second.tensor(name).shape[0] * second.tensor(name).shape[1]), b(a.size());
    first.read(name, std::as_writable_bytes(std::span(a)));
    second.read(name, std::as_writable_bytes(std::span(b)));
    EXPECT_EQ(a, b) << name;
  }
  run(recipe("other", {"model.from=" + kStoredModelFixture}));
  EXPECT_THAT(error_of("x", {"model.from=" + path("other"), "lora.from=" + path("tuned")}),
              HasSubstr("were trained on another base model"));
  EXPECT_THAT(error_of("x", {"model.from=" + kStoredModelFixture, "lora.from=" + path("other")}),
              HasSubstr("the run trained the model itself, and no adapters"));
}

// The base of adapters may be replaced by what it was exported as, and by no other model.
TEST_F(StoredModels, AnExportInF32StandsForItsCheckpoint) {
  const TrainResult base = run(recipe("base", {"model.from=" + kStoredModelFixture}));
  run(recipe("tuned", {"model.from=" + path("base"), "lora.rank=2"}));
  const std::string copy = exported(base.checkpoint, "copy");
  const std::string identity = StoredModel::open(base.checkpoint)->identity();
  EXPECT_NE(StoredModel::open(copy)->identity(), identity);
  EXPECT_TRUE(StoredModel::open(copy)->is_of(identity));
  EXPECT_FALSE(StoredModel::open(kStoredModelFixture)->is_of(identity));
  EXPECT_EQ(run(recipe("next", unchanged({"model.from=" + copy, "lora.from=" + path("tuned")}))).step, 1);
  // Of other weights beside the same probe nothing is believed.
  {
    std::fstream file(copy + "/model.safetensors", std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(-1, std::ios::end);
    file.put(1);
  }
  EXPECT_FALSE(StoredModel::open(copy)->is_of(identity));
}

TEST_F(StoredModels, WhatDoesNotFitIsNamed) {
  const TrainResult first = run(recipe("first", {"model.from=" + kStoredModelFixture}));
  const std::string checkpoint = first.checkpoint.string();
  try {
    recipe("x", {"model.from=" + path("first"), "model.layers=7"});
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "is 7 here and 2 in " + checkpoint + "/config.json");
    EXPECT_THAT(error.where(), HasSubstr("model.layers"));
  }
  std::filesystem::create_directories(directory_ / "empty");
  std::ofstream(directory_ / "empty/recipe.yaml") << "name: empty\n";
  EXPECT_THAT(message_of([&] { recipe("x", {"model.from=" + path("empty")}); }),
              HasSubstr("the run has no checkpoint yet"));
  // A model of other sizes than the recipe's, whoever made it.
  {
    const ContextScope scope(Context::open("cpu"));
    Recipe other = recipe("x", {"model.from=" + kStoredModelFixture});
    other.model.layers = 1;
    const auto model = LanguageModel::create(other.model, std::nullopt);
    EXPECT_THAT(message_of([&] { StoredModel::open(first.checkpoint)->load(*model); }),
                HasSubstr("is 2 in the checkpoint and 1 in this run"));
  }
  std::ofstream(first.checkpoint / "config.json", std::ios::app) << " ";
  EXPECT_THAT(message_of([&] { recipe("x", {"model.from=" + path("first")}); }), HasSubstr("bytes"));
}

}  // namespace
}  // namespace causeway::train
