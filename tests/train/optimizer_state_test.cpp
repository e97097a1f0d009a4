// What optimizers keep beside the weights, in a run: averages of other types and shapes, and the average of the
// weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>

#include "causeway/base/error.h"
#include "causeway/device/offline/offline_device.h"
#include "causeway/program/context.h"
#include "causeway/train/checkpoint/run_checkpoint.h"
#include "causeway/train/step/training_step.h"
#include "causeway/train/trainer.h"
#include "tests/fixtures/temporary_directory.h"
#include "tests/train/checkpoint_state.h"

namespace causeway::train {
namespace {

using ::testing::HasSubstr;

class OptimizerStateTest : public testing::Test {
 protected:
  OptimizerStateTest() {
    std::string text;
    for (uint32_t i = 0, x = 1; i < 6000; ++i, x = x * 1664525 + 1013904223)
      text.push_back(static_cast<char>('a' + (x >> 24) % 20));
    std::ofstream(directory_ / "text.bin", std::ios::binary) << text;
  }

  Recipe recipe(const std::string& name, std::vector<std::string> overrides = {}) const {
    overrides.insert(overrides.begin(), {"name=" + name, "run_directory=" + (directory_ / name).string(),
                                         "data.path=" + (directory_ / "text.bin").string()});
    return parse_recipe(R"(
model: {family: llama, vocabulary_size: 256, layers: 1, width: 64, heads: 4, kv_heads: 2, ffn_width: 128, max_sequence_length: 16}
data: {token_bytes: 1, sequence_length: 16}
train: {batch_size: 8, steps: 4, precision: f32}
optimizer: {learning_rate: 1e-3}
schedule: {kind: constant}
checkpoint: {interval: 1, interval_minutes: 0, keep: 9}
log: {tensorboard: false}
)",
                        "recipe", overrides);
  }

  void run(const Recipe& recipe, const ResumeChoice& resume = {}) const {
    train(recipe, {.resume = resume, .quiet = true, .watch_signals = false});
  }

  std::string error_of(const Recipe& recipe, const ResumeChoice& resume = {}) const {
    try {
      run(recipe, resume);
    } catch (const Error& error) {
      return error.message() + " | " + error.hint();
    }
    return "no error";
  }

  std::filesystem::path checkpoint(const std::string& name, int step) const {
    return directory_ / name / fmt::format("checkpoints/step-{:08}", step);
  }

  TemporaryDirectory directory_;
};

std::vector<float> floats(const auto& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// Training goes on as it would without, and the average is what carries the parameter's name.
TEST_F(OptimizerStateTest, AnAverageOfTheWeightsIsWhatIsSaved) {
  run(recipe("plain"));
  run(recipe("average", {"optimizer.average_decay=0.3"}));
  std::map<std::string, std::vector<double>> averages;
  for (int step = 1; step <= 4; ++step) {
    const auto plain = checkpoint_state(checkpoint("plain", step)),
               with = checkpoint_state(checkpoint("average", step));
    int found = 0;
    for (const auto& [name, bytes] : with) {
      if (!name.starts_with("trained.")) continue;
      ++found;
      const std::string of = name.substr(8);
      const std::vector<float> trained = floats(bytes), expected = floats(plain.at(of)), average = floats(with.at(of));
      EXPECT_EQ(trained, expected) << name << ", " << step;
      std::vector<double>& running = averages[of];
      if (step == 1) running.assign(average.begin(), average.end());
      // What the first step began with is not at hand.
      const double decay = std::min(0.3, step / (step + 9.0));
      for (size_t i = 0; step > 1 && i < running.size(); ++i)
        running[i] = decay * running[i] + (1 - decay) * trained[i];
      for (size_t i = 0; i < running.size(); ++i) ASSERT_NEAR(average[i], running[i], 1e-6) << name << ", " << step;
      if (step > 1) EXPECT_NE(average, trained) << name;
    }
    EXPECT_EQ(found, 12);
    EXPECT_EQ(with.size(), 4 * 12u);
  }
}

TEST_F(OptimizerStateTest, AnotherFormOfMomentsIsRefusedByItsKey) {
  run(recipe("plain", {"train.steps=1"}));
  const ResumeChoice half = {ResumeMode::kFrom, checkpoint("plain", 1).string()};
  EXPECT_EQ(
      error_of(recipe("other", {"optimizer.moments=8bit"}), half),
      "optimizer.moments is f32 in the checkpoint and 8bit in this run, which keeps something else of the "
      "parameters | Resume with optimizer.moments=f32, or begin a new run with the checkpoint's weights: causeway "
      "export writes them for model.from.");
  run(recipe("coded", {"optimizer.moments=8bit", "optimizer.moment_block=32", "train.steps=1"}));
  EXPECT_THAT(error_of(recipe("other_block", {"optimizer.moments=8bit", "optimizer.moment_block=64"}),
                       {ResumeMode::kFrom, checkpoint("coded", 1).string()}),
              HasSubstr("optimizer.moment_block is 32 in the checkpoint and 64 in this run"));
  // Keys that say nothing of what is kept may change.
  EXPECT_EQ(error_of(recipe("goes_on", {"optimizer.moments=8bit", "optimizer.moment_block=32", "optimizer.beta2=0.9"}),
                     {ResumeMode::kFrom, checkpoint("coded", 1).string()}),
            "no error");
  EXPECT_THAT(error_of(recipe("averaged", {"optimizer.average_decay=0.9"}), half),
              HasSubstr("optimizer.average_decay is 0 in the checkpoint and 0.9 in this run"));
}

// What is compensated has its names in checkpoints, and another form of weights its key in the refusal.
TEST_F(OptimizerStateTest, WeightsInBf16AreSavedAsTheyLie) {
  run(recipe("kahan", {"optimizer.weights=bf16_kahan", "train.steps=1"}));
  const CheckpointReader reader(checkpoint("kahan", 1));
  int matrices = 0;
  for (const std::string& name : reader.names()) {
    const CheckpointTensor& tensor = reader.tensor(name);
    const bool of_weight = name.starts_with("model.") || name.starts_with("lm_head."),
               compensates = name.starts_with("compensation.");
    if (of_weight) EXPECT_EQ(tensor.dtype, tensor.shape.size() < 2 ? DType::kF32 : DType::kBF16) << name;
    if (compensates) EXPECT_EQ(tensor.dtype, DType::kBF16) << name;
    matrices += compensates ? 1 : 0;
  }
  EXPECT_EQ(matrices, 9);
  const ResumeChoice from = {ResumeMode::kFrom, checkpoint("kahan", 1).string()};
  for (const char* other : {"f32", "bf16_stochastic"})
    EXPECT_THAT(error_of(recipe("other", {fmt::format("optimizer.weights={}", other)}), from),
                HasSubstr(fmt::format("optimizer.weights is bf16_kahan in the checkpoint and {} in this run", other)));
  const ContextScope scope(Context::open("cpu"));
  const auto held = load_checkpoint_model(reader), wide = load_checkpoint_model(reader, DType::kF32);
  for (const Parameter& parameter : held->parameters()) {
    const Tensor& of_wide = wide->parameter(parameter.name).tensor;
    EXPECT_EQ(of_wide.dtype(), DType::kF32);
    EXPECT_EQ(of_wide.values(), parameter.tensor.values()) << parameter.name;
  }
}

// As planned with a model of many weights: the recipe's own type, and what it is compensated by.
TEST_F(OptimizerStateTest, WeightsInBf16AreTwoBytesAndCompensatedFour) {
  const auto bytes = [](const std::string& weights) {
    const Recipe one = load_recipe(CAUSEWAY_SOURCE_DIR "/recipes/gpt2_124m.yaml", {"optimizer.weights=" + weights});
    const ContextScope scope(std::make_shared<Context>(std::make_shared<OfflineDevice>(Target())));
    const auto model = LanguageModel::create(one.model, ModelPart(one.model.layers), new_weights(one));
    int64_t held = 0, beside = 0;
    for (const Parameter& parameter : model->parameters()) {
      held += parameter.tensor.local_bytes();
      beside += find_optimizer("adamw").state_bytes(parameter, one.optimizer);
    }
    return std::pair{static_cast<double>(held), static_cast<double>(beside)};
  };
  const auto [f32, moments] = bytes("f32");
  const auto [stochastic, same] = bytes("bf16_stochastic");
  const auto [kahan, more] = bytes("bf16_kahan");
  EXPECT_NEAR(stochastic / f32, 0.5, 1e-3);
  EXPECT_EQ(kahan, stochastic);
  EXPECT_EQ(same, moments);
  EXPECT_NEAR((kahan + more - moments) / f32, 1, 1e-12);
}

TEST_F(OptimizerStateTest, AMeshThatCutsABlockIsRefused) {
  const auto step_over = [&](const std::string& axis, const std::string& block) {
    const Recipe one = recipe("cut", {"optimizer.moments=8bit", "optimizer.moment_block=" + block, axis});
    const auto context = std::make_shared<Context>(std::make_shared<OfflineDevice>(Target()),
                                                   ContextOptions{.mesh = make_mesh(one.mesh)});
    const ContextScope scope(context);
    const auto model = LanguageModel::create(one.model, std::nullopt);
    try {
      const TrainingStep step(*model, one);
    } catch (const Error& error) {
      return error.where() + ": " + error.message() + " | " + error.hint();
    }
    return std::string("no error");
  };
  EXPECT_EQ(step_over("mesh.fsdp=2", "32"), "no error");
  EXPECT_EQ(step_over("mesh.tp=2", "32"), "no error");
  EXPECT_EQ(
      step_over("mesh.tp=2", "128"),
      "mesh.tp: the mesh cuts model.layers.0.self_attn.o_proj.weight [64, 64] into parts of 32 along dimension 1, "
      "and moment1_scale of the optimizer is kept by blocks of 64 there | Parts of a multiple of 64 would do, or "
      "optimizer.moment_block=32.");
}

TEST_F(OptimizerStateTest, EightBitsAreAQuarterOfF32) {
  const auto bytes = [](const std::string& moments) {
    const Recipe one = load_recipe(CAUSEWAY_SOURCE_DIR "/recipes/gpt2_124m.yaml", {"optimizer.moments=" + moments});
    const ContextScope scope(std::make_shared<Context>(std::make_shared<OfflineDevice>(Target())));
    int64_t sum = 0;
    const auto model = LanguageModel::create(one.model, std::nullopt);
    for (const Parameter& parameter : model->parameters())
      sum += find_optimizer("adamw").state_bytes(parameter, one.optimizer);
    return static_cast<double>(sum);
  };
  EXPECT_DOUBLE_EQ(bytes("bf16") / bytes("f32"), 0.5);
  EXPECT_LT(bytes("8bit") / bytes("f32"), 0.256);
  EXPECT_GT(bytes("8bit") / bytes("f32"), 0.25);
}

// What is trained beside an average begins at the weights. A first step that is left out must leave it there, and not
// at 0, from where the second step would take the model.
TEST_F(OptimizerStateTest, AFirstStepThatIsLeftOutLeavesTheWeights) {
  for (const std::string& kind : {"optimizer.average_decay=0.3", "optimizer.name=schedule_free_adamw"})
    for (const int64_t rows : {8, 4}) {
      const ContextScope scope(Context::open("cpu"));
      SCOPED_TRACE(fmt::format("{}, {} rows", kind, rows));
      const Recipe one =
          recipe("skips", {kind, "train.on_non_finite=skip", fmt::format("train.micro_batch_size={}", rows)});
      const auto model = LanguageModel::create(one.model, 3);
      TrainingStep step(*model, one);
      std::vector<int32_t> inputs, targets;
      for (int32_t i = 0; i < 8 * 16; ++i) {
        inputs.push_back(7 * i % 251);
        targets.push_back((7 * i + 5) % 251);
      }
      const TrainingBatch batch{inputs, targets, {}, 8 * 16};
      std::vector<std::vector<double>> before;
      for (const Parameter& parameter : model->parameters()) before.push_back(parameter.tensor.values());
      // The last norm poisons every gradient, and is mended behind the step.
      constexpr char kPoisoned[] = "model.norm.weight";
      const auto fill = [](Tensor tensor, float value) {
        const std::vector<float> values(static_cast<size_t>(tensor.local_bytes()) / sizeof(float), value);
        tensor.write_bytes(std::as_bytes(std::span(values)));
      };
      const auto fill_norm = [&](float value) {
        for (const Parameter& parameter : model->parameters())
          if (parameter.name == kPoisoned) fill(parameter.tensor, value);
      };
      fill_norm(std::nanf(""));
      EXPECT_FALSE(step.run(batch, 0, 1e-3).finite);
      fill_norm(1);
      int found = 0;
      for (const TrainingStep::StateTensor& kept : step.optimizer_state()) {
        if (!kept.name.starts_with("trained.") && !kept.name.starts_with("base.")) continue;
        ++found;
        if (model->parameters()[kept.parameter].name == kPoisoned)
          fill(kept.tensor, 1);
        else
          EXPECT_EQ(kept.tensor.values(), before[kept.parameter]) << kept.name;
      }
      EXPECT_EQ(found, 12);
      EXPECT_TRUE(step.run(batch, 1, 1e-3).finite);
      EXPECT_EQ(Context::current()->device().peak_bytes(), step.cost().total_bytes());
      for (size_t i = 0; i < before.size(); ++i) {
        const std::vector<double> after = model->parameters()[i].tensor.values();
        EXPECT_NE(after, before[i]) << i;
        for (size_t k = 0; k < after.size(); ++k) ASSERT_NEAR(after[k], before[i][k], 1e-2) << i;
      }
    }
}

}  // namespace
}  // namespace causeway::train
