// Adapters on a base in NF4 or f8e4m3: losses of 50 steps against PEFT's on bitsandbytes' matrices
// (tests/fixtures/quantized/training.safetensors, made by tools/make_quantized_base_fixtures.py), meshes, and memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "causeway/device/offline/offline_device.h"
#include "causeway/model/hugging_face.h"
#include "causeway/model/peft_adapter.h"
#include "causeway/model/quantized_weight.h"
#include "causeway/train/step/training_step.h"
#include "tests/fixtures/error_message.h"
#include "tests/train/training_ranks.h"

namespace causeway::train {
namespace {

namespace fs = std::filesystem;

const fs::path kFixtures = fs::path(CAUSEWAY_SOURCE_DIR) / "tests/fixtures";
constexpr int64_t kBaseRows = 2, kBaseLength = 16;

// As tools/make_adapter_fixtures.py draws them; all rows of the step's batch, or this rank's.
std::vector<double> losses_on_base(TrainingStep& step, const Recipe& recipe, int64_t steps) {
  std::vector<double> losses;
  for (int64_t i = 0; i < steps; ++i) {
    std::vector<int32_t> tokens, targets;
    const RowRange rows = step.own_rows();
    for (int64_t k = 0; k < rows.count * recipe.micro_batches(); ++k)
      for (int64_t place = 0; place < kBaseLength; ++place) {
        const int64_t row = k / rows.count * recipe.train.micro_batch_size + rows.first + k % rows.count;
        const auto token = [&](int64_t at) {
          return static_cast<int32_t>((i % 4 * 5 + row * 11 + at * at * 3) % recipe.model.vocabulary_size);
        };
        tokens.push_back(token(place));
        targets.push_back(token(place + 1));
      }
    const StepFigures figures =
        step.run({tokens, targets, {}, kBaseRows * kBaseLength}, i, recipe.optimizer.learning_rate);
    EXPECT_TRUE(figures.finite) << "step " << i;
    losses.push_back(figures.loss);
  }
  return losses;
}

struct FixtureCase {
  const char* adapter;
  BaseWeights base;
};

class QuantizedBase : public testing::TestWithParam<FixtureCase> {};

TEST_P(QuantizedBase, FiftyStepsGiveTheLossesOfPeftOnTheSameMatrices) {
  const std::string name = GetParam().adapter;
  const fs::path adapter = kFixtures / "adapters" / name, base = kFixtures / "parity" / name.substr(0, name.find('_'));
  Recipe recipe;
  recipe.model = read_hugging_face_config(base);
  recipe.adapter = read_peft_config(adapter).adapter;
  recipe.adapter.base = GetParam().base;
  recipe.data.sequence_length = kBaseLength;
  recipe.optimizer = {.learning_rate = 5e-3,
                      .weight_decay = 0.1,
                      .gradient_clip = 1.0,
                      .own = {{"beta1", 0.9}, {"beta2", 0.95}, {"epsilon", 1e-8}}};
  recipe.train.batch_size = recipe.train.micro_batch_size = kBaseRows;
  recipe.train.precision = Precision::kF32;
  const auto model = LanguageModel::create(recipe.model, own_part(recipe), new_weights(recipe));
  load_parameters(*model, SafetensorsModel(base));
  load_peft_weights(*model, adapter);
  TrainingStep step(*model, recipe);
  const std::vector<double> losses = losses_on_base(step, recipe, 50);
  const SafetensorsFile file(kFixtures / "quantized/training.safetensors");
  const std::string key = fmt::format("{}.{}", name, GetParam().base);
  ASSERT_EQ(file.entry(key).shape, (std::vector<int64_t>{50}));
  for (size_t i = 0; i < losses.size(); ++i)
    EXPECT_NEAR(losses[i], read_element(DType::kF32, file.data(key).data(), i), 1e-4) << "step " << i;
}

INSTANTIATE_TEST_SUITE_P(Kinds, QuantizedBase,
                         testing::Values(FixtureCase{"llama_lora", BaseWeights::kNf4},
                                         FixtureCase{"llama_lora", BaseWeights::kF8},
                                         FixtureCase{"llama_dora", BaseWeights::kNf4},
                                         FixtureCase{"gpt2_lora", BaseWeights::kNf4}),
                         [](const auto& info) { return fmt::format("{}_{}", info.param.adapter, info.param.base); });

// Of which every axis may cut the blocks, with a base of random weights.
Recipe cut_recipe(BaseWeights base, const std::vector<std::string>& overrides = {}) {
  std::vector<std::string> all = {fmt::format("lora.base={}", base)};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return parse_recipe(R"(name: cut
model: {family: llama, vocabulary_size: 64, layers: 2, width: 128, heads: 4, kv_heads: 2, ffn_width: 256,
        max_sequence_length: 16}
data: {path: data, sequence_length: 16}
lora: {rank: 4}
optimizer: {learning_rate: 1e-2}
train: {batch_size: 2, precision: f32}
)",
                      "recipe", all);
}

std::vector<double> losses_of_cut(const Recipe& recipe, int64_t steps) {
  const auto model = LanguageModel::create(recipe.model, own_part(recipe), new_weights(recipe, 3));
  initialize_adapters(*model, 7);
  TrainingStep step(*model, recipe);
  return losses_on_base(step, recipe, steps);
}

TEST(QuantizedBaseTraining, RanksGiveTheLossesOfOne) {
  for (const BaseWeights base : {BaseWeights::kNf4, BaseWeights::kF8})
    for (const char* kind : {"lora", "dora"}) {
      const std::string of_kind = fmt::format("lora.kind={}", kind);
      const std::vector<double> whole = losses_of_cut(cut_recipe(base, {of_kind}), 5);
      EXPECT_LT(whole.back(), whole.front());
      for (const char* mesh : {"mesh.fsdp=2", "mesh.tp=2", "mesh.dp=2", "mesh.cp=2", "mesh.pp=2"}) {
        SCOPED_TRACE(fmt::format("{} {} over {}", base, kind, mesh));
        const Recipe recipe = cut_recipe(base, {of_kind, mesh});
        on_ranks(recipe.mesh, [&] {
          const std::vector<double> losses = losses_of_cut(recipe, 5);
          for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(losses[i], whole[i], 2e-5) << "step " << i;
        });
      }
    }
}

// Whatever is computed again, and by micro-batches.
TEST(QuantizedBaseTraining, RecomputationGivesTheSameLosses) {
  const std::vector<double> plain = losses_of_cut(cut_recipe(BaseWeights::kNf4, {"train.recompute=none"}), 4);
  const auto expect_plain = [&](const std::string& setting) {
    const std::vector<double> losses = losses_of_cut(cut_recipe(BaseWeights::kNf4, {setting}), 4);
    for (size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(losses[i], plain[i], 1e-5) << setting << ", step " << i;
  };
  for (const char* policy : {"selective", "block"}) expect_plain(fmt::format("train.recompute={}", policy));
  expect_plain("train.micro_batch_size=1");
}

TEST(QuantizedBaseTraining, DevicesGiveTheSameLosses) {
  for (const BaseWeights base : {BaseWeights::kNf4, BaseWeights::kF8}) {
    const Recipe recipe = cut_recipe(base, {"train.precision=bf16", "model.layers=1"});
    const std::vector<double> here = losses_of_cut(recipe, 2);
    for (const char* device : {"emulator:sm_90a", "emulator:gfx942"}) {
      const ContextScope scope(Context::open(device));
      const std::vector<double> there = losses_of_cut(recipe, 2);
      for (size_t i = 0; i < here.size(); ++i) EXPECT_NEAR(there[i], here[i], 2e-3) << device << ", step " << i;
    }
  }
}

// Of the matrices of many layers a few are whole at any time, in the forward pass and in the backward one.
TEST(QuantizedBaseTraining, FewMatricesAreDequantizedAtATime) {
  static constexpr int kLayers = 6;
  struct Planned {
    int64_t weights = 0, activations = 0;
  };
  const auto plan = [](BaseWeights base, const char* recompute, const char* target) {
    const Recipe recipe =
        cut_recipe(base, {fmt::format("model.layers={}", kLayers), "train.precision=bf16", recompute});
    const ContextScope scope(std::make_shared<Context>(std::make_shared<OfflineDevice>(parse_target(target))));
    const auto model = LanguageModel::create(recipe.model, own_part(recipe), new_weights(recipe));
    const TrainingStep step(*model, recipe);
    const auto given = [](const Tensor& tensor) {
      return Context::current()->device().target().reserved_bytes(tensor.local_bytes());
    };
    Planned planned{.weights = 0, .activations = step.planned_bytes(step.recomputation())};
    for (const Parameter& parameter : model->parameters()) {
      planned.weights += parameter.tensor.local_bytes();
      planned.activations -= given(parameter.tensor);
    }
    for (const TrainingStep::StateTensor& state : step.optimizer_state()) planned.activations -= given(state.tensor);
    return planned;
  };
  constexpr int64_t kLargest = 2 * 128 * 256, kMatricesOfLayer = 2 * (2 * 128 * 128 + 2 * 64 * 128 + 3 * 128 * 256);
  for (const char* target : {"cpu", "cuda:sm_90a", "hip:gfx942"})
    for (const char* recompute : {"train.recompute=none", "train.recompute=selective", "train.recompute=block"}) {
      const Planned plain = plan(BaseWeights::kUnquantized, recompute, target);
      for (const BaseWeights base : {BaseWeights::kNf4, BaseWeights::kF8}) {
        SCOPED_TRACE(fmt::format("{} {} {}", target, recompute, base));
        const Planned held = plan(base, recompute, target);
        EXPECT_LE(held.activations - plain.activations, 3 * kLargest + kMatricesOfLayer / 8)
            << "of " << kLayers * kMatricesOfLayer << " bytes of all matrices";
        EXPECT_LT(held.weights, plain.weights - kLayers * kMatricesOfLayer / 3);
      }
    }
}

TEST(QuantizedBaseTraining, MemoryIsAsPlanned) {
  for (const char* device : {"cpu", "emulator:sm_90a"})
    for (const BaseWeights base : {BaseWeights::kNf4, BaseWeights::kF8}) {
      const ContextScope scope(Context::open(device));
      const Recipe recipe = cut_recipe(base, {"train.precision=bf16", "model.layers=1"});
      const auto model = LanguageModel::create(recipe.model, own_part(recipe), new_weights(recipe, 3));
      // Without a step of initialize_adapters(), which would take memory of its own.
      for (const Parameter& parameter : model->parameters())
        if (parameter.is_adapter)
          Tensor(parameter.tensor)
              .write_bytes(std::vector<std::byte>(static_cast<size_t>(parameter.tensor.local_bytes())));
      TrainingStep step(*model, recipe);
      const StepCost cost = step.cost();
      losses_on_base(step, recipe, 2);
      EXPECT_EQ(Context::current()->device().bytes_in_use(), cost.total_bytes()) << device << " " << name_of(base);
    }
}

// The shipped recipe, without a device: 6.98 billion parameters of matrices in 4.127 bits, tables in bf16, norms in
// f32, and of the adapters what training needs.
TEST(QuantizedBaseTraining, BytesOfLlama3Of8B) {
  const Recipe recipe = load_recipe(fs::path(CAUSEWAY_SOURCE_DIR) / "recipes/qlora_llama3_8b.yaml", {});
  const ContextScope scope(std::make_shared<Context>(std::make_shared<OfflineDevice>(Target()), ContextOptions()));
  const auto model = LanguageModel::create(recipe.model, own_part(recipe), new_weights(recipe));
  constexpr int64_t kAll = 8'030'261'248, kNorms = 65 * 4096, kTables = 2 * int64_t{128256} * 4096,
                    kMatrices = kAll - kNorms - kTables, kAdapters = 41'943'040;
  int64_t matrices = 0, others = 0;
  for (const Parameter& parameter : model->parameters()) {
    const bool is_of_matrix = parameter.quantized || parameter.is_scale;
    (is_of_matrix ? matrices : others) += parameter.tensor.local_bytes();
    EXPECT_EQ(parameter.is_trained, parameter.is_adapter);
  }
  EXPECT_EQ(kMatrices, 6'979'321'856);
  // With a mean for each of the 224 matrices.
  EXPECT_EQ(matrices, kMatrices / 2 + kMatrices / 64 + 4 * (kMatrices / 64 / 256) + 4 * 224);
  EXPECT_NEAR(static_cast<double>(matrices) / static_cast<double>(kMatrices), 0.516, 2e-4);
  EXPECT_EQ(others, 2 * kTables + 4 * kNorms + 4 * kAdapters);
  const TrainingStep step(*model, recipe);
  EXPECT_EQ(step.state_bytes(), 8 * kAdapters);
}

// Parts are cut as the matrix would be, by whole blocks.
TEST(QuantizedBaseTraining, AMeshCutsWholeBlocksOrIsRefused) {
  Recipe::MeshSizes sizes;
  sizes.size(MeshAxisId::kTp) = 2;
  on_ranks(sizes, [] {
    const ParameterDim width{128, LogicalDim::kWidth};
    const QuantizedWeight cut("o_proj", BaseWeights::kNf4, width, {256, LogicalDim::kHeads}, DType::kF32,
                              make_code_values());
    EXPECT_EQ(cut.parts()[0].tensor.local_shape(), (std::vector<int64_t>{128, 64}));
    EXPECT_EQ(cut.parts()[1].tensor.local_shape(), (std::vector<int64_t>{128, 2}));
    EXPECT_FALSE(cut.parts()[2].tensor.is_cut());
    const std::string message = message_of([&] {
      QuantizedWeight("o_proj", BaseWeights::kNf4, width, {64, LogicalDim::kHeads}, DType::kF32, make_code_values());
    });
    EXPECT_NE(message.find("mesh.tp: cuts o_proj.weight"), std::string::npos) << message;
    EXPECT_NE(message.find("Give it fewer ranks, or set lora.base to f8 or unquantized."), std::string::npos);
    const QuantizedWeight bytes("o_proj", BaseWeights::kF8, width, {64, LogicalDim::kHeads}, DType::kF32,
                                make_code_values());
    EXPECT_EQ(bytes.parts()[0].tensor.local_shape(), (std::vector<int64_t>{128, 32}));
  });
}

}  // namespace
}  // namespace causeway::train
