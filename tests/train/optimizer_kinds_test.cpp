// What holds of every optimizer of the program: a run over any mesh is that of one device, a run that goes on is one
// that never stopped, its state has its names in checkpoints, and a step takes the memory that was planned.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "causeway/base/error.h"
#include "causeway/formats/box.h"
#include "causeway/optimizer/optimizer.h"
#include "causeway/train/checkpoint/run_checkpoint.h"
#include "causeway/train/trainer.h"
#include "tests/fixtures/temporary_directory.h"
#include "tests/train/checkpoint_state.h"
#include "tests/train/training_ranks.h"

namespace causeway::train {
namespace {

using ::testing::HasSubstr;

// An optimizer with keys of its own, by a name for the test.
struct OptimizerCase {
  std::string name, optimizer;
  std::vector<std::string> overrides = {};
};
void PrintTo(const OptimizerCase& optimizer_case, std::ostream* out) { *out << optimizer_case.name; }

constexpr char kOfExperts[] = "_of_experts";

// Every optimizer as it is, with the weights of experts where it treats each matrix as a whole, and where what it keeps
// has other types and shapes. Rows of 64 are two blocks, one on each of two ranks.
std::vector<OptimizerCase> optimizer_cases() {
  std::vector<OptimizerCase> cases;
  for (const std::string& name : optimizer_names()) cases.push_back({name, name});
  const auto in_8_bits = [](const std::string& optimizer, const std::string& rounding) {
    return OptimizerCase{
        optimizer + "_8bit",
        optimizer,
        {"optimizer.moments=8bit", "optimizer.moment_block=32", "optimizer.moment_rounding=" + rounding,
         "model.width=64", "model.ffn_width=128", "optimizer.learning_rate=1e-3"}};
  };
  cases.push_back({"adamw_bf16", "adamw", {"optimizer.moments=bf16", "optimizer.moment_rounding=stochastic"}});
  cases.push_back(in_8_bits("adamw", "stochastic"));
  cases.push_back(in_8_bits("schedule_free_adamw", "nearest"));
  cases.push_back(in_8_bits("muon", "nearest"));
  cases.push_back({"adamw_average", "adamw", {"optimizer.average_decay=0.5"}});
  cases.push_back({"adamw_stochastic_weights",
                   "adamw",
                   {"optimizer.weights=bf16_stochastic", "optimizer.average_decay=0.5", "optimizer.moments=bf16",
                    "optimizer.moment_rounding=stochastic"}});
  for (const char* optimizer : {"normuon", "adafactor"})
    cases.push_back({std::string(optimizer) + kOfExperts,
                     optimizer,
                     {"model.family=olmoe", "model.experts=4", "model.ffn_width=16"}});
  cases.push_back({"muon_kahan_weights", "muon", {"optimizer.weights=bf16_kahan"}});
  cases.push_back({"schedule_free_kahan_weights", "schedule_free_adamw", {"optimizer.weights=bf16_kahan"}});
  return cases;
}

class EveryOptimizer : public testing::TestWithParam<OptimizerCase> {
 protected:
  EveryOptimizer() {
    std::string text;
    for (uint32_t i = 0, x = 1; i < 6000; ++i, x = x * 1664525 + 1013904223)
      text.push_back(static_cast<char>('a' + (x >> 24) % 20));
    std::ofstream(directory_ / "text.bin", std::ios::binary) << text;
  }

  // The axes that cut parameters, and of AdamW as it is `others` too, whose ranks have whole ones.
  static std::vector<std::string> meshes(const std::vector<std::string>& others) {
    std::vector<std::string> all = {"mesh.fsdp=2", "mesh.tp=2"};
    if (GetParam().name == "adamw") all.insert(all.end(), others.begin(), others.end());
    return all;
  }

  Recipe recipe(const std::string& name, const std::vector<std::string>& overrides) const {
    std::vector<std::string> all = {"name=" + name, "run_directory=" + (directory_ / name).string(),
                                    "data.path=" + (directory_ / "text.bin").string(),
                                    "optimizer.name=" + GetParam().optimizer};
    all.insert(all.end(), GetParam().overrides.begin(), GetParam().overrides.end());
    all.insert(all.end(), overrides.begin(), overrides.end());
    return parse_recipe(R"(
model: {family: llama, vocabulary_size: 256, layers: 2, width: 16, heads: 4, kv_heads: 2, ffn_width: 32, max_sequence_length: 16}
data: {token_bytes: 1, sequence_length: 16}
train: {batch_size: 8, steps: 6, precision: f32}
optimizer: {learning_rate: 3e-3}
checkpoint: {interval: 3, interval_minutes: 0, keep: 9}
log: {tensorboard: false}
)",
                        "recipe", all);
  }

  // Losses by step.
  std::map<int64_t, double> run(const Recipe& recipe, const ResumeChoice& resume = {}) const {
    on_ranks(recipe.mesh, [&] { train_in_context(recipe, {.resume = resume, .quiet = true, .watch_signals = false}); });
    std::map<int64_t, double> losses;
    std::ifstream file(directory_ / recipe.name / "metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      const nlohmann::json record = nlohmann::json::parse(line);
      if (record.contains("loss")) losses[record["step"].get<int64_t>()] = record["loss"].get<double>();
    }
    return losses;
  }

  std::filesystem::path checkpoint(const std::string& name, int step) const {
    return directory_ / name / fmt::format("checkpoints/step-{:08}", step);
  }

  TemporaryDirectory directory_;
};

TEST_P(EveryOptimizer, LearnsABatchThatItSeesAgain) {
  const Recipe one = recipe("learns", {});
  const ContextScope scope(Context::open("cpu"));
  const auto model = LanguageModel::create(one.model, ModelPart(one.model.layers), new_weights(one, 3));
  TrainingStep step(*model, one);
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 8 * 16; ++i) tokens.push_back(i * i % 251);
  const TrainingBatch batch{tokens, tokens, {}, 8 * 16};
  double before = step.run(batch, 0, 3e-3).loss;
  for (int64_t i = 1; i < 12; ++i) {
    const double loss = step.run(batch, i, 3e-3).loss;
    EXPECT_LT(loss, before) << i;
    before = loss;
  }
}

TEST_P(EveryOptimizer, GoesOnAsIfItHadNotStopped) {
  const std::map<int64_t, double> expected = run(recipe("whole", {}));
  ASSERT_EQ(expected.size(), 6u);
  const auto half = checkpoint("whole", 3);
  const std::map<int64_t, double> continued = run(recipe("resumed", {}), {ResumeMode::kFrom, half.string()});
  ASSERT_EQ(continued.size(), 3u);
  for (const auto& [step, loss] : continued) EXPECT_EQ(loss, expected.at(step)) << step;
  EXPECT_EQ(checkpoint_state(checkpoint("resumed", 6)), checkpoint_state(checkpoint("whole", 6)));
}

TEST_P(EveryOptimizer, CheckpointsHaveItsNames) {
  const Recipe one = recipe("names", {"train.steps=1"});
  run(one);
  const CheckpointReader reader(checkpoint("names", 1));
  EXPECT_EQ(reader.state().optimizer, GetParam().optimizer);
  const Optimizer& optimizer = find_optimizer(GetParam().optimizer);
  std::vector<std::string> names;
  int64_t bytes = 0;
  const ContextScope scope(Context::open("cpu"));
  const auto model = LanguageModel::create(one.model, ModelPart(one.model.layers), new_weights(one));
  for (const Parameter& parameter : model->parameters()) {
    names.push_back(parameter.name);
    bytes += parameter.tensor.local_bytes() + optimizer.state_bytes(parameter, one.optimizer);
    for (const OptimizerState& kept : optimizer.state_of(parameter, one.optimizer))
      names.push_back(kept.name + "." + parameter.name);
  }
  EXPECT_THAT(reader.names(), testing::UnorderedElementsAreArray(names));
  int64_t stored = 0;
  for (const auto& [name, values] : checkpoint_state(checkpoint("names", 1)))
    stored += static_cast<int64_t>(values.size());
  EXPECT_EQ(stored, bytes);
  for (const std::string& other : optimizer_names())
    if (other != GetParam().optimizer && GetParam().overrides.empty()) {
      try {
        run(recipe("other", {"optimizer.name=" + other}), {ResumeMode::kFrom, checkpoint("names", 1).string()});
        ADD_FAILURE() << other;
      } catch (const Error& error) {
        EXPECT_THAT(error.message(), HasSubstr(fmt::format("optimizer.name is {} in the checkpoint and {} in this run",
                                                           GetParam().optimizer, other)));
      }
    }
}

// A checkpoint of each mesh goes on on one device, and the other way round.
TEST_P(EveryOptimizer, IsTheSameOverEveryMesh) {
  const std::map<int64_t, double> expected = run(recipe("one", {}));
  const auto half = checkpoint("one", 3);
  const auto names = [&](const std::filesystem::path& directory) { return CheckpointReader(directory).names(); };
  for (const std::string& mesh : meshes({"mesh.dp=2", "mesh.cp=2", "mesh.pp=2"})) {
    const std::string name = mesh.substr(5, mesh.size() - 7);
    const std::vector<std::string> over = {mesh, "train.micro_batch_size=4"};
    for (const auto& [step, loss] : run(recipe(name, over))) EXPECT_NEAR(loss, expected.at(step), 1e-5 * loss) << mesh;
    for (const auto& [step, loss] : run(recipe(name + "_on", over), {ResumeMode::kFrom, half.string()}))
      EXPECT_NEAR(loss, expected.at(step), 1e-5 * loss) << mesh;
    EXPECT_EQ(names(checkpoint(name, 3)), names(half));
    for (const auto& [step, loss] : run(recipe(name + "_back", {}), {ResumeMode::kFrom, checkpoint(name, 3).string()}))
      EXPECT_NEAR(loss, expected.at(step), 1e-5 * loss) << mesh;
  }
}

TEST_P(EveryOptimizer, MeshIndependentRunsAreTheSameBits) {
  if (GetParam().name.ends_with("_8bit")) {
    try {
      run(recipe("refused", {"mesh.fsdp=2", "train.mesh_independent=true"}));
      ADD_FAILURE() << "not refused";
    } catch (const Error& error) {
      EXPECT_THAT(error.message(), HasSubstr("does not go with an optimizer that keeps bytes"));
    }
    return;
  }
  const std::map<int64_t, double> expected = run(recipe("one", {"train.mesh_independent=true"}));
  for (const std::string& mesh : meshes({"mesh.pp=2"})) {
    if (mesh == "mesh.fsdp=2" && GetParam().name.ends_with(kOfExperts)) continue;  // refused
    const std::string name = mesh.substr(5, mesh.size() - 7);
    EXPECT_EQ(run(recipe(name, {mesh, "train.mesh_independent=true"})), expected) << mesh;
    EXPECT_EQ(checkpoint_state(checkpoint(name, 6)), checkpoint_state(checkpoint("one", 6))) << mesh;
  }
}

// What a step takes is known to the byte, on a processor and on a GPU that is emulated.
TEST_P(EveryOptimizer, TakesTheMemoryThatWasPlanned) {
  for (const char* name : {"cpu", "emulator:sm_90a"})
    for (const char* rows : {"8", "4"}) {
      const Recipe one = recipe("planned", {fmt::format("train.micro_batch_size={}", rows), "model.layers=1"});
      const ContextScope scope(Context::open(name));
      const Device& device = Context::current()->device();
      const auto model = LanguageModel::create(one.model, ModelPart(one.model.layers), new_weights(one, 3));
      TrainingStep step(*model, one);
      const StepCost cost = step.cost();
      const int64_t sums = rows == std::string("4") ? 4 * parameter_count(one.model) : 0;
      EXPECT_EQ(step.gradient_sum_bytes(), sums);
      EXPECT_EQ(cost.optimizer_bytes, step.state_bytes() + sums);
      const std::vector<int32_t> tokens(8 * 16, 5);
      EXPECT_TRUE(step.run({tokens, tokens, {}, 8 * 16}, 0, 1e-3).finite);
      EXPECT_EQ(device.peak_bytes(), cost.total_bytes()) << name << ", " << rows;
    }
}

INSTANTIATE_TEST_SUITE_P(, EveryOptimizer, testing::ValuesIn(optimizer_cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace causeway::train
