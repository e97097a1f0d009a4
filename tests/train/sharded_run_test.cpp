// Whole runs on ranks that are threads: a checkpoint of any mesh goes on on any other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <span>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/generate/text_generation.h"
#include "causeway/train/checkpoint/run_checkpoint.h"
#include "causeway/train/evaluation.h"
#include "causeway/train/ranks.h"
#include "causeway/train/trainer.h"
#include "tests/fixtures/temporary_directory.h"
#include "tests/train/checkpoint_state.h"
#include "tests/train/training_ranks.h"

namespace causeway::train {
namespace {

using ::testing::HasSubstr;

class ShardedRun : public testing::Test {
 protected:
  ShardedRun() {
    std::string text;
    for (uint32_t i = 0, x = 1; i < 6000; ++i, x = x * 1664525 + 1013904223)
      text.push_back(static_cast<char>('a' + (x >> 24) % 20));
    std::ofstream(directory_ / "text.bin", std::ios::binary) << text;
  }

  Recipe recipe(const std::string& name, const std::vector<std::string>& overrides) const {
    std::vector<std::string> all = {"name=" + name, "run_directory=" + (directory_ / name).string(),
                                    "data.path=" + (directory_ / "text.bin").string()};
    all.insert(all.end(), overrides.begin(), overrides.end());
    return parse_recipe(R"(
model: {family: llama, vocabulary_size: 256, layers: 2, width: 16, heads: 4, kv_heads: 2, ffn_width: 32, max_sequence_length: 16}
data: {token_bytes: 1, sequence_length: 16}
train: {batch_size: 12, steps: 8, precision: f32}
optimizer: {learning_rate: 1e-2, epsilon: 1e-4}
checkpoint: {interval: 4, interval_minutes: 0, keep: 9}
log: {tensorboard: false}
)",
                        "recipe", all);
  }

  // Every rank's result is the same; that of the first.
  TrainResult run(const Recipe& recipe, const ResumeChoice& resume = {}, const std::string& device = "cpu") const {
    std::mutex mutex;
    std::map<int, TrainResult> results;
    on_ranks(
        recipe.mesh,
        [&] {
          const TrainResult result =
              train_in_context(recipe, {.resume = resume, .quiet = true, .watch_signals = false});
          const std::lock_guard lock(mutex);
          results[result.rank] = result;
        },
        device);
    EXPECT_EQ(results.size(), static_cast<size_t>(recipe.mesh.ranks()));
    for (const auto& [rank, result] : results) {
      EXPECT_EQ(result.last_loss, results.at(0).last_loss) << rank;
      EXPECT_EQ(result.checkpoint, results.at(0).checkpoint) << rank;
    }
    return results.at(0);
  }

  // By step, from the metrics.
  std::map<int64_t, double> losses(const std::string& name) const {
    std::map<int64_t, double> losses;
    std::ifstream file(directory_ / name / "metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      const nlohmann::json record = nlohmann::json::parse(line);
      if (record.contains("loss")) losses[record["step"].get<int64_t>()] = record["loss"].get<double>();
    }
    return losses;
  }

  TemporaryDirectory directory_;
};

TEST_F(ShardedRun, GoesOnOnAnyOtherMesh) {
  const Recipe one = recipe("one", {});
  run(one);
  const std::map<int64_t, double> expected = losses("one");
  ASSERT_EQ(expected.size(), 8u);
  EXPECT_LT(expected.at(8), expected.at(1));

  run(recipe("fsdp", {"mesh.fsdp=4"}));
  const auto first_half = directory_ / "fsdp/checkpoints/step-00000004";
  const auto saved = checkpoint_state(first_half);
  EXPECT_EQ(saved.size(), checkpoint_state(directory_ / "one/checkpoints/step-00000004").size());
  for (const std::vector<std::string>& mesh : std::vector<std::vector<std::string>>{{"mesh.fsdp=4"},
                                                                                    {"mesh.tp=2", "mesh.fsdp=2"},
                                                                                    {"mesh.dp=3"},
                                                                                    {"mesh.cp=2", "mesh.dp=2"},
                                                                                    {"mesh.tp=2", "mesh.pp=2"},
                                                                                    {}}) {
    std::string name = "on";
    for (const std::string& axis : mesh) name += "_" + axis.substr(5);
    // Nothing but the save of what was read: the same bits, on whatever mesh.
    std::vector<std::string> overrides = mesh;
    overrides.emplace_back("train.steps=8");
    const Recipe goes_on = recipe(name, overrides);
    const TrainResult result = run(goes_on, {ResumeMode::kFrom, first_half.string()});
    EXPECT_EQ(result.step, 8);
    const std::map<int64_t, double> continued = losses(name);
    ASSERT_EQ(continued.size(), 4u) << name;
    for (const auto& [step, loss] : continued)
      EXPECT_NEAR(loss, expected.at(step), 2e-6 * loss) << name << ", " << step;
  }
}

// Losses and state, to the last bit; a checkpoint goes on on another mesh as if nothing had happened. GPUs are
// emulated.
TEST_F(ShardedRun, MeshIndependentRunsAreTheSameBits) {
  struct Case {
    std::string device;
    std::vector<std::string> model;
    std::vector<std::vector<std::string>> meshes;
    int64_t steps = 4;  // the second half is done once more from a checkpoint; of two a warm-up leaves little to learn
  };
  const std::vector<Case> cases = {
      {"cpu",
       {"train.precision=f32"},
       {{"mesh.fsdp=2", "mesh.tp=2"},
        {"mesh.tp=2", "mesh.pp=2", "train.pipeline_schedule=zero_bubble"},
        {"mesh.dp=2", "mesh.cp=2", "mesh.tp=2"}}},
      {"cpu",
       {"model.family=gpt2", "model.kv_heads=4", "model.dropout=0.1", "train.precision=bf16"},
       {{"mesh.dp=2"}, {"mesh.tp=2"}}},
      {"emulator:sm_90a", {"train.precision=f32"}, {{"mesh.dp=3"}}, 2},
      {"emulator:gfx942",
       {"model.family=gpt2", "model.kv_heads=4", "model.dropout=0.1", "train.precision=bf16"},
       {{"mesh.tp=2"}},
       2},
  };
  int number = 0;
  for (const Case& one : cases) {
    const auto independent = [&](const std::string& name, const std::vector<std::string>& mesh) {
      std::vector<std::string> all = one.model;
      for (const char* shared :
           {"train.mesh_independent=true", "train.micro_batch_size=6", "optimizer.gradient_clip=0.3"})
        all.emplace_back(shared);
      all.push_back(fmt::format("train.steps={}", one.steps));
      all.push_back(fmt::format("checkpoint.interval={}", one.steps / 2));
      all.insert(all.end(), mesh.begin(), mesh.end());
      return recipe(name, all);
    };
    const auto compare = [&](const std::string& name, const std::string& with, int64_t steps) {
      std::map<int64_t, double> expected = losses(with);
      ASSERT_EQ(expected.size(), static_cast<size_t>(one.steps));
      if (one.steps >= 4) EXPECT_LT(expected.at(one.steps), expected.at(1));
      std::erase_if(expected, [&](const auto& entry) { return entry.first <= one.steps - steps; });
      EXPECT_EQ(losses(name), expected);
      const std::string last_checkpoint = fmt::format("checkpoints/step-{:08}", one.steps);
      const auto state_of_one = checkpoint_state(directory_ / with / last_checkpoint);
      std::string different;
      for (const auto& [tensor, bytes] : checkpoint_state(directory_ / name / last_checkpoint))
        if (bytes != state_of_one.at(tensor)) different += tensor + " ";
      EXPECT_EQ(different, "");
    };
    const std::string on_one = fmt::format("one{}", number);
    run(independent(on_one, {}), {}, one.device);
    std::string last;
    for (const std::vector<std::string>& mesh : one.meshes) {
      SCOPED_TRACE(fmt::format("{} on {}", fmt::join(mesh, " "), one.device));
      const std::string name = fmt::format("mesh{}", number++);
      run(independent(name, mesh), {}, one.device);
      compare(name, on_one, one.steps);
      if (!last.empty()) {
        const std::string half = (directory_ / last / fmt::format("checkpoints/step-{:08}", one.steps / 2)).string();
        run(independent(name + "on", mesh), {ResumeMode::kFrom, half}, one.device);
        compare(name + "on", on_one, one.steps / 2);
      }
      last = name;
    }
  }
}

// Four experts are shared out by two and four ranks, and by three they are not.
TEST_F(ShardedRun, StateIsTheSameBitsWhateverMeshReadsAndWritesIt) {
  for (const std::vector<std::string>& model :
       std::vector<std::vector<std::string>>{{}, {"model.family=olmoe", "model.experts=4"}}) {
    const auto with_model = [&](std::vector<std::string> overrides) {
      overrides.insert(overrides.end(), model.begin(), model.end());
      return overrides;
    };
    const std::string start = fmt::format("start{}", model.size());
    run(recipe(start, with_model({"mesh.fsdp=2", "mesh.tp=2", "train.steps=2"})));
    std::filesystem::path checkpoint = directory_ / start / "checkpoints/step-00000002";
    const auto expected = checkpoint_state(checkpoint);
    int number = 0;
    for (const std::vector<std::string>& mesh : std::vector<std::vector<std::string>>{{"mesh.dp=3"},
                                                                                      {},
                                                                                      {"mesh.tp=2", "mesh.pp=2"},
                                                                                      {"mesh.dp=2", "mesh.cp=2"},
                                                                                      {"mesh.pp=2", "mesh.fsdp=2"},
                                                                                      {"mesh.fsdp=4"}}) {
      const Recipe next = recipe(fmt::format("copy{}of{}", number++, model.size()), with_model(mesh));
      on_ranks(next.mesh, [&] {
        const Ranks ranks(*Context::current());
        const TokenDataset dataset = TokenDataset::open(next.data.path, kTrainSplit, {.token_bytes = 1});
        const auto model = LanguageModel::create(next.model, own_part(next), 99);
        TrainingStep step(*model, next);
        const RunParts parts{next, dataset, nullptr, *model, step};
        const RunPosition position = restore_run(CheckpointReader(checkpoint), parts);
        EXPECT_EQ(position.step, 2);
        ranks.on_first([&] { std::filesystem::create_directories(next.run_directory); });
        save_run(parts, position, {.chunk_bytes = 512});
      });
      checkpoint = std::filesystem::path(next.run_directory) / "checkpoints/step-00000002";
      EXPECT_EQ(checkpoint_state(checkpoint), expected) << recipe_text(next);
    }
  }
}

TEST_F(ShardedRun, CheckpointsWrittenMeanwhileAreThoseThatTrainingWaitsFor) {
  for (const std::vector<std::string>& mesh : std::vector<std::vector<std::string>>{
           {}, {"mesh.fsdp=2", "mesh.tp=2"}, {"mesh.dp=2", "mesh.cp=2", "train.micro_batch_size=6"}}) {
    std::vector<std::string> overrides = mesh;
    overrides.insert(overrides.end(), {"checkpoint.interval=1", "train.steps=5"});
    const TrainResult meanwhile = run(recipe("meanwhile", overrides));
    overrides.emplace_back("checkpoint.asynchronous=false");
    const TrainResult waited = run(recipe("waited", overrides));
    EXPECT_EQ(meanwhile.checkpoint.filename(), waited.checkpoint.filename());
    for (int64_t step = 1; step <= 5; ++step) {
      const std::string name = fmt::format("checkpoints/step-{:08}", step);
      EXPECT_EQ(checkpoint_state(directory_ / "meanwhile" / name), checkpoint_state(directory_ / "waited" / name))
          << step;
    }
    std::ifstream metrics(directory_ / "meanwhile/metrics.jsonl");
    std::vector<int64_t> saved;
    for (std::string line; std::getline(metrics, line);) {
      const nlohmann::json record = nlohmann::json::parse(line);
      if (!record.contains("checkpoint_pause")) continue;
      saved.push_back(record["checkpoint_step"]);
      EXPECT_GE(record["step"], saved.back());
      EXPECT_GT(record["checkpoint_pause"], 0.0);
      EXPECT_GE(record["checkpoint_seconds"], record["checkpoint_pause"]);
    }
    EXPECT_EQ(saved, (std::vector<int64_t>{1, 2, 3, 4, 5}));
    std::filesystem::remove_all(directory_ / "meanwhile");
    std::filesystem::remove_all(directory_ / "waited");
  }
}

// Tied embeddings are on two stages and in the checkpoint once.
TEST_F(ShardedRun, StagesWithTiedEmbeddingsGoOnAsOneDevice) {
  const std::vector<std::string> gpt2 = {"model.family=gpt2", "model.kv_heads=4", "train.micro_batch_size=6"};
  run(recipe("one", gpt2));
  const std::map<int64_t, double> expected = losses("one");
  std::vector<std::string> staged = gpt2;
  staged.insert(staged.end(), {"mesh.pp=2", "mesh.fsdp=2", "train.pipeline_schedule=zero_bubble"});
  run(recipe("staged", staged));
  for (const auto& [step, loss] : losses("staged")) EXPECT_NEAR(loss, expected.at(step), 2e-6 * loss) << step;
  const auto half = directory_ / "staged/checkpoints/step-00000004";
  EXPECT_EQ(checkpoint_state(half).size(), checkpoint_state(directory_ / "one/checkpoints/step-00000004").size());
  run(recipe("on", gpt2), {ResumeMode::kFrom, half.string()});
  for (const auto& [step, loss] : losses("on")) EXPECT_NEAR(loss, expected.at(step), 2e-6 * loss) << step;
}

TEST_F(ShardedRun, EvaluatesAndSamplesAsOneDeviceDoes) {
  const std::vector<std::string> overrides = {"train.steps=2", "evaluation.interval=1"};
  std::vector<std::string> sharded = overrides;
  sharded.insert(sharded.end(), {"mesh.fsdp=2", "mesh.dp=2"});
  const TrainResult one = run(recipe("one", overrides)), four = run(recipe("four", sharded));
  EXPECT_NEAR(four.last_loss, one.last_loss, 2e-6 * one.last_loss);
  EXPECT_EQ(four.validation_loss.has_value(), one.validation_loss.has_value());
  const Recipe stages = recipe("stages", {"mesh.pp=2", "mesh.tp=2"});
  std::mutex mutex;
  std::vector<double> losses;
  std::vector<std::vector<int32_t>> texts;
  const auto evaluate = [&](const Recipe& of) {
    losses.clear();
    texts.clear();
    on_ranks(of.mesh, [&] {
      const auto model = LanguageModel::create(of.model, own_part(of), 5);
      const TokenDataset dataset = TokenDataset::open(of.data.path, kTrainSplit, {.token_bytes = 1});
      const double loss = Evaluator(*model, of, dataset).run().loss;
      const std::vector<int32_t> prompt = {1, 2, 3};
      const std::vector<int32_t> text =
          TextGenerator(*model, pipeline_options(of), TextGenerator::Attention::kRecomputed,
                        TextGenerator::Weights::kChange)
              .generate(prompt, {.tokens = 4, .temperature = 0});
      const std::lock_guard lock(mutex);
      losses.push_back(loss);
      texts.push_back(text);
    });
  };
  evaluate(recipe("whole", {}));
  const double whole_loss = losses.at(0);
  const std::vector<int32_t> whole_text = texts.at(0);
  evaluate(stages);
  EXPECT_EQ(losses, std::vector<double>(4, losses.at(0)));
  EXPECT_NEAR(losses.at(0), whole_loss, 2e-6 * whole_loss);
  EXPECT_EQ(texts, std::vector<std::vector<int32_t>>(4, whole_text));
}

TEST_F(ShardedRun, AnErrorOfOneRankIsThatOfAll) {
  // Only the rank that reads the last rows of a batch meets the token that the model does not know.
  std::fstream file(directory_ / "text.bin", std::ios::binary | std::ios::in | std::ios::out);
  const Recipe bad = recipe("bad", {"mesh.dp=3", "model.vocabulary_size=128"});
  std::string text(6000, 'a');
  text[3000] = static_cast<char>(200);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  std::mutex mutex;
  std::vector<std::string> messages;
  on_ranks(bad.mesh, [&] {
    try {
      train_in_context(bad, {.resume = {}, .quiet = true, .watch_signals = false});
    } catch (const ErrorOfAllRanks& error) {
      const std::lock_guard lock(mutex);
      messages.emplace_back(error.message());
    }
  });
  ASSERT_EQ(messages.size(), 3u);
  for (const std::string& message : messages)
    EXPECT_THAT(message, HasSubstr("token id 200 is beyond the model's vocabulary of 128"));
}

// The embedding of a token that a single sequence has is no number: one rank's batch alone meets it, and all leave the
// step out. One layer, for what is looked for then is compiled by itself.
TEST_F(ShardedRun, WhatIsNotFiniteInOneRanksBatchIsSkippedByAll) {
  constexpr size_t kWidth = 16, kBroken = 'z';
  std::fstream text(directory_ / "text.bin", std::ios::binary | std::ios::in | std::ios::out);
  text.seekp(3000);
  text.put(kBroken);
  text.close();
  run(recipe("whole", {"train.steps=4", "model.layers=1"}));
  const CheckpointReader whole(directory_ / "whole/checkpoints/step-00000004");
  CheckpointWriter writer(directory_ / "broken", whole.state());
  std::map<std::string, std::vector<std::byte>> tensors = checkpoint_state(whole.directory());
  auto* const embedding = reinterpret_cast<float*>(tensors.at("model.embed_tokens.weight").data());
  std::fill_n(embedding + kBroken * kWidth, kWidth, std::numeric_limits<float>::quiet_NaN());
  for (const auto& [name, bytes] : tensors)
    writer.add({name, whole.tensor(name).dtype, whole.tensor(name).shape}, bytes);
  // Every sequence once: it is met once, or twice where another one ends with it.
  const Recipe skipping = recipe("skipping", {"mesh.dp=2", "model.layers=1", "train.steps=36",
                                              "train.on_non_finite=skip", "checkpoint.interval=0"});
  const TrainResult result = run(skipping, {ResumeMode::kFrom, writer.commit().string()});
  EXPECT_GE(result.skipped_steps, 1);
  EXPECT_LE(result.skipped_steps, 2);
  EXPECT_TRUE(std::isfinite(result.last_loss));
  for (auto& [name, bytes] : checkpoint_state(result.checkpoint)) {
    const std::span values(reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float));
    const auto broken = std::ranges::count_if(values, [](float value) { return !std::isfinite(value); });
    EXPECT_EQ(broken, name == "model.embed_tokens.weight" ? kWidth : 0) << name;
  }
}

// What every rank throws, where rank r runs recipes[r] as a program of versions[r].
std::vector<std::string> refusals(const std::vector<Recipe>& recipes, const std::vector<std::string>& versions) {
  std::mutex mutex;
  std::vector<std::string> messages;
  on_ranks(recipes.front().mesh, [&] {
    const auto rank = static_cast<size_t>(Context::current()->rank());
    TrainOptions options{.resume = {}, .quiet = true, .watch_signals = false};
    options.version = versions[rank];
    try {
      train_in_context(recipes[rank], options);
    } catch (const ErrorOfAllRanks& error) {
      const std::lock_guard lock(mutex);
      messages.emplace_back(error.message());
    }
  });
  return messages;
}

TEST_F(ShardedRun, RanksThatDifferAreNamedBeforeTheFirstStep) {
  const Recipe usual = recipe("differs", {"mesh.dp=3"}),
               other = recipe("differs", {"mesh.dp=3", "optimizer.learning_rate=2e-2"});
  EXPECT_EQ(refusals({usual, usual, other}, {"1", "1", "1"}),
            std::vector<std::string>(3,
                                     "rank 2 has another recipe than rank 0: optimizer.learning_rate: 0.01 on rank "
                                     "0, optimizer.learning_rate: 0.02 on rank 2"));
  EXPECT_EQ(refusals({usual, usual, usual}, {"1", "2", "2"}),
            std::vector<std::string>(3,
                                     "ranks 1 and 2 have another version of the program than rank 0: 1 on rank 0, 2 "
                                     "on rank 1"));
  EXPECT_FALSE(std::filesystem::exists(directory_ / "differs"));
}

TEST_F(ShardedRun, ProgramsAreComparedByHash) {
  std::mutex mutex;
  std::map<std::string, int> hashes;
  const Recipe same = recipe("same", {"mesh.dp=2"});
  const auto count_hashes = [&](const std::vector<Recipe>& recipes) {
    hashes.clear();
    on_ranks(recipes.front().mesh, [&] {
      const Recipe& mine = recipes[static_cast<size_t>(Context::current()->rank())];
      const auto model = LanguageModel::create(mine.model, 1);
      TrainingStep step(*model, mine);
      const std::string hash = step.program_hash();
      const std::lock_guard lock(mutex);
      ++hashes[hash];
    });
    return hashes.size();
  };
  EXPECT_EQ(count_hashes({same, same}), 1u);
  EXPECT_EQ(count_hashes({same, recipe("same", {"mesh.dp=2", "train.micro_batch_size=6"})}), 2u);
}

}  // namespace
}  // namespace causeway::train
