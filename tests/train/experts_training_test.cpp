// Models with experts in runs: columns of their routers, the same over every mesh and micro-batch, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "causeway/base/error.h"
#include "causeway/train/step/training_step.h"
#include "causeway/train/trainer.h"
#include "tests/fixtures/temporary_directory.h"
#include "tests/train/checkpoint_state.h"
#include "tests/train/training_ranks.h"

namespace causeway::train {
namespace {

class ExpertsTraining : public testing::Test {
 protected:
  ExpertsTraining() {
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
model: {family: olmoe, vocabulary_size: 256, layers: 2, width: 16, heads: 4, kv_heads: 2, ffn_width: 16, experts: 4, max_sequence_length: 16}
data: {token_bytes: 1, sequence_length: 16}
train: {batch_size: 8, steps: 5, precision: f32}
optimizer: {learning_rate: 1e-2, epsilon: 1e-4}
checkpoint: {interval: 0, interval_minutes: 0}
log: {tensorboard: false}
)",
                        "recipe", all);
  }

  // By step, of each column.
  using Columns = std::map<std::string, std::map<int64_t, double>>;
  Columns run(const std::string& name, const std::vector<std::string>& overrides,
              const ResumeChoice& resume = {}) const {
    const Recipe one = recipe(name, overrides);
    on_ranks(one.mesh, [&] { train_in_context(one, {.resume = resume, .quiet = true, .watch_signals = false}); });
    Columns columns;
    std::ifstream file(directory_ / name / "metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      const nlohmann::json record = nlohmann::json::parse(line);
      if (!record.contains("loss")) continue;
      for (const char* key : {"loss", "balance_loss", "router_z_loss", "expert_load", "router_entropy"})
        if (record.contains(key)) columns[key][record["step"].get<int64_t>()] = record[key].get<double>();
    }
    return columns;
  }

  TemporaryDirectory directory_;
};

TEST_F(ExpertsTraining, RoutersHaveColumnsOfTheirOwn) {
  const Columns without = run("without", {}), with = run("with", {"moe.balance_loss=0.1", "moe.router_z_loss=0.1"});
  EXPECT_FALSE(without.contains("balance_loss"));
  ASSERT_EQ(with.at("balance_loss").size(), 5u);
  // The first loss is the same weights', and the terms are no part of it; the weights behind it are others.
  EXPECT_EQ(with.at("loss").at(1), without.at("loss").at(1));
  EXPECT_NE(with.at("loss").at(3), without.at("loss").at(3));
  EXPECT_LT(with.at("loss").at(5), with.at("loss").at(1));
  // New routers find all experts as likely: 2 of 4 for each token, and logits near 0.
  EXPECT_NEAR(with.at("balance_loss").at(1), 0.1 * 2, 0.01);
  EXPECT_NEAR(with.at("router_z_loss").at(1), 0.1 * std::pow(std::log(4.0), 2), 0.01);
  EXPECT_NEAR(with.at("router_entropy").at(1), std::log(4.0), 0.02);
  EXPECT_GE(with.at("expert_load").at(1), 1.0);
  EXPECT_LE(with.at("expert_load").at(1), 2.0);
}

// Of a micro-batch, over all ranks: the mean over micro-batches is no sum of them, and differs from the batch's.
TEST_F(ExpertsTraining, AreTheSameOverEveryMesh) {
  const std::vector<std::string> terms = {"moe.balance_loss=0.1", "moe.router_z_loss=0.01",
                                          "optimizer.gradient_clip=0.5"};
  const Columns expected = run("one", terms);
  for (const auto& [name, mesh] :
       std::map<std::string, std::vector<std::string>>{{"fsdp", {"mesh.fsdp=2"}},
                                                       {"tp", {"mesh.tp=2"}},
                                                       {"cp", {"mesh.cp=2"}},
                                                       {"both", {"mesh.dp=2", "mesh.tp=2"}}}) {
    std::vector<std::string> all = terms;
    all.insert(all.end(), mesh.begin(), mesh.end());
    const Columns over = run(name, all);
    for (const auto& [column, steps] : expected)
      for (const auto& [step, value] : steps)
        EXPECT_NEAR(over.at(column).at(step), value, 2e-4 * std::abs(value)) << name << " " << column << " " << step;
  }
}

// Weights that are large enough for a loss to tell experts apart.
std::vector<std::string> with_checkpoints(std::vector<std::string> more) {
  more.insert(more.end(), {"checkpoint.interval=2", "train.steps=4", "model.initializer_range=0.2",
                           "moe.balance_loss=0.1", "moe.router_z_loss=0.01"});
  return more;
}

// Routers, a shared expert with its gate, a dense layer: all of their state is in the checkpoint, to the bit.
TEST_F(ExpertsTraining, GoOnAsIfTheyHadNotStopped) {
  for (const auto& [name, model] : std::map<std::string, std::vector<std::string>>{
           {"olmoe", {}},
           {"qwen2_moe",
            {"model.family=qwen2_moe", "model.expert_ffn_width=8", "model.shared_expert_ffn_width=24",
             "model.first_dense_layers=1"}}}) {
    const Columns whole = run(name, with_checkpoints(model));
    const auto checkpoint = [&](const std::string& of, int step) {
      return directory_ / of / fmt::format("checkpoints/step-{:08}", step);
    };
    const std::string again = name + "_again";
    const Columns resumed = run(again, with_checkpoints(model), {ResumeMode::kFrom, checkpoint(name, 2).string()});
    for (const auto& [column, steps] : resumed) {
      EXPECT_EQ(steps.size(), 2u) << column;
      for (const auto& [step, value] : steps) EXPECT_EQ(value, whole.at(column).at(step)) << name << " " << column;
    }
    EXPECT_EQ(checkpoint_state(checkpoint(again, 4)), checkpoint_state(checkpoint(name, 4))) << name;
  }
}

TEST_F(ExpertsTraining, CheckpointsGoOnOnOtherMeshes) {
  const Columns expected = run("one", with_checkpoints({}));
  run("fsdp", with_checkpoints({"mesh.fsdp=2"}));
  const std::string half = (directory_ / "fsdp/checkpoints/step-00000002").string();
  // Experts in another order make another loss, by more than meshes do.
  for (const auto& [name, mesh] : std::map<std::string, std::vector<std::string>>{
           {"alone", {}}, {"dp", {"mesh.dp=2"}}, {"tp", {"mesh.tp=2"}}, {"cp", {"mesh.cp=2"}}}) {
    const Columns over = run("on_" + name, with_checkpoints(mesh), {ResumeMode::kFrom, half});
    for (const char* column : {"loss", "balance_loss", "router_z_loss", "router_entropy"}) {
      ASSERT_EQ(over.at(column).size(), 2u) << name;
      for (const auto& [step, value] : over.at(column))
        EXPECT_NEAR(value, expected.at(column).at(step), 2e-5 * std::abs(value)) << name << " " << column;
    }
  }
}

TEST_F(ExpertsTraining, StagesTrainThemWithoutLossesOfRouters) {
  const Columns one = run("plain", {}), stages = run("stages", {"mesh.pp=2", "train.micro_batch_size=4"});
  EXPECT_FALSE(stages.contains("expert_load"));
  for (const auto& [step, loss] : one.at("loss")) EXPECT_NEAR(stages.at("loss").at(step), loss, 2e-4 * loss) << step;
}

TEST_F(ExpertsTraining, WhatDoesNotGoTogetherIsRefused) {
  const auto error = [&](const std::vector<std::string>& overrides) -> std::string {
    try {
      recipe("refused", overrides);
    } catch (const Error& error) {
      return error.where() + ": " + error.message();
    }
    return "no error";
  };
  EXPECT_EQ(error({"moe.balance_loss=-1"}), "command line: moe.balance_loss: must not be negative");
  EXPECT_EQ(error({"moe.balance_loss=0.1", "model.family=llama", "model.experts=8"}),
            "command line: moe.balance_loss: has no effect on llama, which has no experts");
  EXPECT_EQ(error({"moe.router_z_loss=0.1", "mesh.pp=2"}),
            "command line: moe.router_z_loss: is a loss of all layers together, and stages (mesh.pp) do not yet "
            "exchange it");
  EXPECT_EQ(error({"moe.balance_loss=0.1", "preference.loss=dpo"}),
            "command line: moe.balance_loss: preference.loss=dpo has no such loss");
  EXPECT_EQ(error({"train.precision=fp8"}), "command line: train.precision: GEMMs of experts are not yet in 8 bits");
  EXPECT_EQ(error({"train.mesh_independent=true", "mesh.fsdp=2"}),
            "command line: train.mesh_independent: ranks with tokens of their own add up the gradients of experts in "
            "another order than one device");
  EXPECT_EQ(error({"train.mesh_independent=true", "mesh.tp=2"}), "no error");
  EXPECT_EQ(error({"model.experts_per_token=5"}),
            "command line: model.experts_per_token: 5 experts of each token are more than there are, 4");
  EXPECT_EQ(error({"mesh.ep=2"}), "command line: mesh.ep: unknown key");
}

}  // namespace
}  // namespace causeway::train
