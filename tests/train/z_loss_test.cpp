// train.z_loss in runs: a column of its own beside the model's loss, the same over every mesh, stage and micro-batch.
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
#include "tests/train/training_ranks.h"

namespace causeway::train {
namespace {

class ZLoss : public testing::Test {
 protected:
  ZLoss() {
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
train: {batch_size: 8, steps: 5, precision: f32}
optimizer: {learning_rate: 1e-2, epsilon: 1e-4}
checkpoint: {interval: 0, interval_minutes: 0}
log: {tensorboard: false}
)",
                        "recipe", all);
  }

  // A figure of the steps' records, by step.
  using Figures = std::map<int64_t, double>;
  struct Run {
    Figures loss, z_loss;
  };
  Run run(const std::string& name, const std::vector<std::string>& overrides) const {
    const Recipe one = recipe(name, overrides);
    on_ranks(one.mesh, [&] { train_in_context(one, {.resume = {}, .quiet = true, .watch_signals = false}); });
    Run result;
    std::ifstream file(directory_ / name / "metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      const nlohmann::json record = nlohmann::json::parse(line);
      if (!record.contains("loss")) continue;
      result.loss[record["step"].get<int64_t>()] = record["loss"].get<double>();
      if (record.contains("z_loss")) result.z_loss[record["step"].get<int64_t>()] = record["z_loss"].get<double>();
    }
    return result;
  }

  TemporaryDirectory directory_;
};

TEST_F(ZLoss, IsAColumnOfItsOwn) {
  const Run without = run("without", {}), with = run("with", {"train.z_loss=0.1"});
  ASSERT_EQ(with.z_loss.size(), 5u);
  EXPECT_TRUE(without.z_loss.empty());
  // The first loss is the same weights', and the term is no part of it; the weights behind it are others.
  EXPECT_EQ(with.loss.at(1), without.loss.at(1));
  EXPECT_NE(with.loss.at(3), without.loss.at(3));
  // Logits of new weights are near 0, so that Z is near the size of the vocabulary.
  EXPECT_NEAR(with.z_loss.at(1), 0.1 * std::pow(std::log(256.0), 2), 0.05);
  EXPECT_LT(with.z_loss.at(5), with.z_loss.at(1));
  EXPECT_LT(with.loss.at(5), with.loss.at(1));
}

TEST_F(ZLoss, IsTheSameOverEveryMeshAndInMicroBatches) {
  const Run expected = run("one", {"train.z_loss=0.1", "optimizer.gradient_clip=0.5"});
  for (const std::vector<std::string>& mesh :
       std::vector<std::vector<std::string>>{{"mesh.fsdp=2", "train.micro_batch_size=4"},
                                             {"mesh.tp=2", "mesh.cp=2"},
                                             {"mesh.pp=2", "train.micro_batch_size=4"}}) {
    std::vector<std::string> all = {"train.z_loss=0.1", "optimizer.gradient_clip=0.5"};
    all.insert(all.end(), mesh.begin(), mesh.end());
    std::string name = "on";
    for (const std::string& axis : mesh) name += "_" + axis.substr(axis.find('.') + 1);
    const Run over = run(name, all);
    for (const auto& [step, loss] : expected.loss) EXPECT_NEAR(over.loss.at(step), loss, 3e-6 * loss) << name << step;
    for (const auto& [step, z] : expected.z_loss) EXPECT_NEAR(over.z_loss.at(step), z, 3e-6 * z) << name << step;
  }
  const Run same = run("same", {"train.z_loss=0.1", "train.mesh_independent=true"});
  const Run cut = run("cut", {"train.z_loss=0.1", "train.mesh_independent=true", "mesh.tp=2"});
  EXPECT_EQ(cut.loss, same.loss);
  EXPECT_EQ(cut.z_loss, same.z_loss);
}

// The mean is over targets that count, and GEMMs in other types change neither that nor the sign of its gradient.
TEST_F(ZLoss, IsTheMeanOverTargets) {
  for (const char* precision : {"f32", "bf16", "fp8"}) {
    SCOPED_TRACE(precision);
    const ContextScope scope(Context::open("cpu"));
    const Recipe one = recipe("mean", {"train.z_loss=0.1", fmt::format("train.precision={}", precision)});
    const auto model = LanguageModel::create(one.model, 3);
    TrainingStep step(*model, one);
    std::vector<int32_t> tokens;
    for (int32_t i = 0; i < 8 * 16; ++i) tokens.push_back(i * i % 251);
    std::vector<int32_t> targets = tokens;
    for (size_t i = 0; i < targets.size(); i += 2) targets[i] = -100;
    EXPECT_EQ(step.objective().figure_names(), (std::vector<std::string>{"z_loss"}));
    const StepFigures first = step.run({tokens, targets, {}, 8 * 8}, 0, 1e-2);
    ASSERT_EQ(first.figures.size(), 1u);
    EXPECT_NEAR(first.figures[0], 0.1 * std::pow(std::log(256.0), 2), 0.05);
    EXPECT_NEAR(first.loss, std::log(256.0), 0.1);
    double last = 0;
    for (int64_t i = 1; i < 6; ++i) last = step.run({tokens, targets, {}, 8 * 8}, i, 1e-2).figures[0];
    EXPECT_LT(last, first.figures[0]);
  }
}

TEST_F(ZLoss, IsRefusedWhereThereIsNone) {
  const auto error = [&](const std::vector<std::string>& overrides) -> std::string {
    try {
      recipe("refused", overrides);
    } catch (const Error& error) {
      return error.where() + ": " + error.message();
    }
    return "no error";
  };
  EXPECT_EQ(error({"train.z_loss=-1"}), "command line: train.z_loss: must not be negative");
  EXPECT_EQ(error({"train.z_loss=1e-4", "preference.loss=dpo"}),
            "command line: train.z_loss: preference.loss=dpo has no z-loss");
  EXPECT_EQ(error({"train.z_loss=1e-4"}), "no error");
}

}  // namespace
}  // namespace causeway::train
