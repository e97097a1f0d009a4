// Training steps over meshes, on ranks that are threads: figures, weights and moments are those of one device.
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <optional>

#include "causeway/train/step/training_step.h"
#include "tests/comparison/comparison.h"
#include "tests/train/training_ranks.h"

namespace causeway::train {
namespace {

constexpr int kSteps = 4;

struct Trained {
  std::vector<StepFigures> figures;
  std::map<std::string, HostTensor> state;  // weights and moments, whole
};

std::vector<int32_t> batch_tokens(const Recipe& recipe, int64_t step, int64_t first_row, int64_t rows, int32_t shift) {
  std::vector<int32_t> tokens;
  for (int64_t row = first_row; row < first_row + rows; ++row)
    for (int64_t i = 0; i < recipe.data.sequence_length; ++i) {
      const int64_t k = row * recipe.data.sequence_length + i + shift;
      tokens.push_back(static_cast<int32_t>((k * 7 + k * k * 3 + step) % recipe.model.vocabulary_size));
    }
  return tokens;
}

// Every rank's own rows of each micro-batch, one after another.
std::vector<int32_t> own_tokens(const Recipe& recipe, const TrainingStep& step, int64_t number, int32_t shift) {
  std::vector<int32_t> all;
  for (int64_t micro = 0; micro < recipe.micro_batches(); ++micro) {
    const RowRange rows = step.own_rows();
    const std::vector<int32_t> own =
        batch_tokens(recipe, number, micro * recipe.train.micro_batch_size + rows.first, rows.count, shift);
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

// By rank what it holds of a tensor, or nothing.
using PartsOfRanks = std::vector<std::optional<HostTensor>>;

// Of the ranks of one stage, which are neighbours. Stages that hold the same tensor hold the same bits.
HostTensor assemble_of_stage(const PartsOfRanks& parts, const Sharding& sharding, Recipe::MeshSizes sizes) {
  const size_t count = parts.size() / static_cast<size_t>(sizes.pp);
  sizes.pp = 1;
  std::optional<HostTensor> whole;
  for (size_t first = 0; first < parts.size(); first += count) {
    std::vector<HostTensor> of_stage;
    for (size_t rank = first; rank < first + count && parts[rank]; ++rank) of_stage.push_back(*parts[rank]);
    if (of_stage.size() != count) continue;
    const HostTensor assembled = assemble(of_stage, sharding, make_mesh(sizes));
    if (whole) EXPECT_EQ(assembled.values, whole->values);
    whole = assembled;
  }
  EXPECT_TRUE(whole.has_value());
  return whole.value_or(HostTensor());
}

// Every row has documents that begin at 0, 5 and 11 where they are packed, and one document else.
std::vector<int32_t> documents_of(const Recipe& recipe, size_t positions) {
  if (!recipe.data.masks_documents()) return {};
  std::vector<int32_t> documents(positions, 1);
  if (!recipe.data.packs_documents()) return documents;
  for (size_t i = 0; i < positions; ++i) {
    const size_t column = i % static_cast<size_t>(recipe.data.sequence_length);
    documents[i] = column < 5 ? 0 : column < 11 ? 5 : 11;
  }
  return documents;
}

Trained train_on_ranks(const Recipe& recipe, int steps = kSteps, double learning_rate = 1e-2,
                       const std::string& device = "cpu") {
  const Mesh mesh = make_mesh(recipe.mesh);
  const auto ranks = static_cast<size_t>(mesh.ranks());
  Trained trained;
  std::mutex mutex;
  std::map<std::string, PartsOfRanks> parts;
  std::map<std::string, Sharding> shardings;
  std::vector<std::vector<StepFigures>> figures(ranks);
  on_ranks(
      recipe.mesh,
      [&] {
        const auto rank = static_cast<size_t>(Context::current()->rank());
        const auto model = LanguageModel::create(recipe.model, own_part(recipe), 3);
        TrainingStep step(*model, recipe);
        for (int64_t i = 0; i < steps; ++i) {
          const std::vector<int32_t> inputs = own_tokens(recipe, step, i, 0), targets = own_tokens(recipe, step, i, 1);
          const std::vector<int32_t> documents = documents_of(recipe, inputs.size());
          figures[rank].push_back(step.run(
              {inputs, targets, documents, recipe.train.batch_size * recipe.data.sequence_length}, i, learning_rate));
        }
        const std::lock_guard lock(mutex);
        const auto collect = [&](const std::string& name, const Tensor& tensor) {
          parts[name].resize(ranks);
          parts[name][rank] = own_part(tensor);
          shardings[name] = tensor.sharding();
        };
        for (const Parameter& parameter : model->parameters()) collect(parameter.name, parameter.tensor);
        for (const auto& state : step.optimizer_state()) collect(state.name, state.tensor);
      },
      device);
  for (const auto& of_rank : figures)
    for (size_t i = 0; i < of_rank.size(); ++i) {
      EXPECT_EQ(of_rank[i].loss, figures[0][i].loss) << "step " << i;
      EXPECT_EQ(of_rank[i].grad_norm, figures[0][i].grad_norm) << "step " << i;
      EXPECT_TRUE(of_rank[i].finite);
    }
  trained.figures = figures[0];
  for (const auto& [name, of_ranks] : parts)
    trained.state[name] = assemble_of_stage(of_ranks, shardings[name], recipe.mesh);
  return trained;
}

Recipe recipe_of(const std::string& family, const std::vector<std::string>& overrides) {
  std::vector<std::string> all = {"model.family=" + family, "train.precision=f32", "optimizer.epsilon=1e-4"};
  if (family == "llama") all.emplace_back("model.kv_heads=2");
  all.insert(all.end(), overrides.begin(), overrides.end());
  return parse_recipe(R"(name: sharded
model: {vocabulary_size: 48, layers: 2, width: 32, heads: 4, ffn_width: 64, max_sequence_length: 16}
data: {path: data, sequence_length: 16}
train: {batch_size: 12}
)",
                      "recipe", all);
}

void expect_same(const Trained& trained, const Trained& one, bool learns = true) {
  for (size_t i = 0; i < one.figures.size(); ++i) {
    EXPECT_NEAR(trained.figures[i].loss, one.figures[i].loss, 1e-6 * one.figures[i].loss) << "step " << i;
    EXPECT_NEAR(trained.figures[i].grad_norm, one.figures[i].grad_norm, 2e-6 * one.figures[i].grad_norm) << i;
  }
  if (learns) EXPECT_LT(one.figures.back().loss, one.figures.front().loss);
  for (const auto& [name, reference] : one.state) {
    // Moments of a mesh's ranks are the same to a few roundings; what is squared, to twice as many.
    HostTensor actual = trained.state.at(name), scaled = reference;
    double largest = 0;
    for (const double value : reference.values) largest = std::max(largest, std::abs(value));
    ASSERT_GT(largest, 0) << name;
    for (double& value : actual.values) value /= largest;
    for (double& value : scaled.values) value /= largest;
    const double rms = name.starts_with("moment2.") ? 1e-5 : 5e-6;
    const Comparison comparison = compare(actual, scaled, {.rms = rms, .row = 1e-4});
    EXPECT_TRUE(comparison.equal) << name << ": " << comparison.text;
  }
}

class TrainingOverMeshes : public testing::TestWithParam<std::pair<std::string, std::vector<std::string>>> {};

TEST_P(TrainingOverMeshes, IsThatOfOneDevice) {
  const auto& [family, mesh] = GetParam();
  expect_same(train_on_ranks(recipe_of(family, mesh)), train_on_ranks(recipe_of(family, {})));
}

// Updates of small tensors and sums of their squares share launches there.
TEST(TrainingOverMeshesOnAGpu, IsThatOfOneDevice) {
  const std::string gpu = "emulator:sm_90a";
  const Trained one = train_on_ranks(recipe_of("gpt2", {}), 2, 1e-2, gpu);
  for (const std::string mesh : {"mesh.dp=2", "mesh.fsdp=2"}) {
    SCOPED_TRACE(mesh);
    expect_same(train_on_ranks(recipe_of("gpt2", {mesh}), 2, 1e-2, gpu), one, /*learns=*/false);
  }
}

// Terms of gradients are rounded before ranks exchange them: figures stay near those of sums in f32, and are not they.
void expect_near_sums_in_f32(const std::string& mesh, const std::string& device, int steps) {
  SCOPED_TRACE(mesh + " on " + device);
  std::vector<std::string> overrides = {"train.precision=bf16", mesh};
  if (mesh == "mesh.dp=2 mesh.fsdp=2") overrides = {"train.precision=bf16", "mesh.dp=2", "mesh.fsdp=2"};
  const Trained rounded = train_on_ranks(recipe_of("llama", overrides), steps, 1e-2, device);
  overrides.emplace_back("train.gradients=f32");
  const Trained exact = train_on_ranks(recipe_of("llama", overrides), steps, 1e-2, device);
  for (size_t i = 0; i < exact.figures.size(); ++i) {
    EXPECT_NEAR(rounded.figures[i].loss, exact.figures[i].loss, 1e-3 * exact.figures[i].loss) << "step " << i;
    EXPECT_NEAR(rounded.figures[i].grad_norm, exact.figures[i].grad_norm, 2e-2 * exact.figures[i].grad_norm) << i;
  }
  EXPECT_NEAR(rounded.figures[0].grad_norm, exact.figures[0].grad_norm, 1e-3 * exact.figures[0].grad_norm);
  EXPECT_NE(rounded.figures[0].grad_norm, exact.figures[0].grad_norm);
}

TEST(RoundedGradientsOverMeshes, StayNearSumsInF32) {
  for (const std::string mesh : {"mesh.dp=3", "mesh.fsdp=2", "mesh.dp=2 mesh.fsdp=2"})
    expect_near_sums_in_f32(mesh, "cpu", kSteps);
  expect_near_sums_in_f32("mesh.dp=2", "emulator:sm_90a", 2);
}

// One family is enough.
class MicroBatchesOverMeshes : public TrainingOverMeshes {};

TEST_P(MicroBatchesOverMeshes, AddUpToThoseOfOneDevice) {
  auto [family, mesh] = GetParam();
  const std::vector<std::string> micro = {"train.batch_size=24", "train.micro_batch_size=12",
                                          "data.document_mask=true"};
  mesh.insert(mesh.end(), micro.begin(), micro.end());
  expect_same(train_on_ranks(recipe_of(family, mesh)), train_on_ranks(recipe_of(family, micro)));
}

// The table of positions is read where each document is in its row.
TEST(PackedTrainingOverMeshes, IsThatOfOneDevice) {
  const std::string packed = "data.packing=documents";
  const Trained one = train_on_ranks(recipe_of("gpt2", {packed}));
  EXPECT_NE(one.figures.front().loss, train_on_ranks(recipe_of("gpt2", {}), 1).figures.front().loss);
  for (const std::string mesh : {"mesh.dp=2", "mesh.fsdp=2", "mesh.cp=2", "mesh.tp=2"}) {
    SCOPED_TRACE(mesh);
    expect_same(train_on_ranks(recipe_of("gpt2", {packed, mesh})), one, /*learns=*/false);
  }
}

// Stages of a pipeline, and what they combine with.
class TrainingOverStages : public TrainingOverMeshes {};

const std::vector<std::string> kFourMicroBatches = {"train.batch_size=24", "train.micro_batch_size=6",
                                                    "model.layers=4"};

TEST_P(TrainingOverStages, IsThatOfOneDevice) {
  auto [family, mesh] = GetParam();
  mesh.insert(mesh.end(), kFourMicroBatches.begin(), kFourMicroBatches.end());
  expect_same(train_on_ranks(recipe_of(family, mesh)), train_on_ranks(recipe_of(family, kFourMicroBatches)));
}

TEST(PackedTrainingOverStages, IsThatOfOneDevice) {
  std::vector<std::string> overrides = kFourMicroBatches;
  overrides.emplace_back("data.packing=documents");
  const Trained one = train_on_ranks(recipe_of("gpt2", overrides));
  overrides.emplace_back("mesh.pp=2");
  expect_same(train_on_ranks(recipe_of("gpt2", overrides)), one, /*learns=*/false);
}

std::vector<std::pair<std::string, std::vector<std::string>>> stage_cases() {
  const std::string zero_bubble = "train.pipeline_schedule=zero_bubble",
                    interleaved = "train.pipeline_schedule=interleaved";
  std::vector<std::pair<std::string, std::vector<std::string>>> all;
  for (const std::string family : {"gpt2", "llama", "mpt"}) {
    all.push_back({family, {"mesh.pp=2"}});
    all.push_back({family, {"mesh.pp=2", zero_bubble}});
    all.push_back({family, {"mesh.pp=2", interleaved, "train.pipeline_chunks=2"}});
  }
  for (const std::string axis : {"mesh.tp=2", "mesh.fsdp=2", "mesh.dp=2", "mesh.cp=2"}) {
    all.push_back({"llama", {"mesh.pp=2", axis}});
    all.push_back({"gpt2", {"mesh.pp=2", axis, zero_bubble}});
  }
  all.push_back({"gpt2", {"mesh.pp=4"}});
  all.push_back({"gpt2", {"mesh.pp=4", zero_bubble}});
  all.push_back({"gpt2", {"mesh.pp=2", "data.document_mask=true", "train.recompute=block"}});
  return all;
}

// Rounded at random by the same numbers, and compensated alike.
TEST(BothEndsOfATiedEmbedding, KeepTheSameBitsInBf16) {
  for (const std::string weights : {"bf16_stochastic", "bf16_kahan"}) {
    const Recipe recipe = recipe_of(
        "gpt2", {"mesh.pp=2", "train.micro_batch_size=6", "train.precision=bf16", "optimizer.weights=" + weights});
    std::mutex mutex;
    std::vector<std::map<std::string, std::vector<double>>> ends;
    on_ranks(recipe.mesh, [&] {
      const auto model = LanguageModel::create(recipe.model, own_part(recipe), new_weights(recipe, 3));
      TrainingStep step(*model, recipe);
      for (int64_t i = 0; i < kSteps; ++i) {
        const std::vector<int32_t> inputs = own_tokens(recipe, step, i, 0), targets = own_tokens(recipe, step, i, 1);
        step.run({inputs, targets, {}, recipe.train.batch_size * recipe.data.sequence_length}, i, 1e-2);
      }
      std::map<std::string, std::vector<double>> held;
      const auto collect = [&](const std::string& name, const Tensor& tensor) {
        if (name.ends_with("wte.weight")) held[name] = tensor.values();
      };
      for (const Parameter& parameter : model->parameters()) collect(parameter.name, parameter.tensor);
      for (const auto& state : step.optimizer_state()) collect(state.name, state.tensor);
      const std::lock_guard lock(mutex);
      ends.push_back(std::move(held));
    });
    ASSERT_EQ(ends.size(), 2u);
    EXPECT_EQ(ends[0].size(), weights == "bf16_kahan" ? 4u : 3u);
    EXPECT_EQ(ends[0], ends[1]) << weights;
  }
}

// The acceptance of pipelines: a longer run.
TEST(LongTrainingOverStages, FiftyStepsHaveTheLossesOfOneDevice) {
  const std::vector<std::string> two = {"train.batch_size=8", "train.micro_batch_size=4"};
  const Trained one = train_on_ranks(recipe_of("llama", two), 50, 1e-3);
  for (const std::string schedule : {"1f1b", "zero_bubble"}) {
    std::vector<std::string> overrides = {"mesh.pp=2", "train.pipeline_schedule=" + schedule};
    overrides.insert(overrides.end(), two.begin(), two.end());
    const Trained staged = train_on_ranks(recipe_of("llama", overrides), 50, 1e-3);
    ASSERT_EQ(staged.figures.size(), 50u);
    for (size_t i = 0; i < 50; ++i)
      EXPECT_NEAR(staged.figures[i].loss, one.figures[i].loss, 2e-6 * one.figures[i].loss) << schedule << ", " << i;
  }
  EXPECT_LT(one.figures.back().loss, one.figures.front().loss);
}

// Masks are a layer's and a micro-batch's own, wherever they are made.
TEST(RandomTrainingOverStages, DropoutIsThatOfOneDevice) {
  std::vector<std::string> overrides = kFourMicroBatches;
  overrides.emplace_back("model.dropout=0.2");
  const Trained one = train_on_ranks(recipe_of("gpt2", overrides));
  overrides.emplace_back("mesh.pp=2");
  // In so few steps masks change the loss by more than training does.
  expect_same(train_on_ranks(recipe_of("gpt2", overrides)), one, false);
}

std::vector<std::pair<std::string, std::vector<std::string>>> cases(const std::vector<std::string>& families) {
  std::vector<std::pair<std::string, std::vector<std::string>>> all;
  for (const std::string& family : families)
    for (const std::vector<std::string>& mesh : std::vector<std::vector<std::string>>{{"mesh.dp=2"},
                                                                                      {"mesh.dp=3"},
                                                                                      {"mesh.fsdp=2"},
                                                                                      {"mesh.dp=2", "mesh.fsdp=2"},
                                                                                      {"mesh.tp=2"},
                                                                                      {"mesh.cp=2"},
                                                                                      {"mesh.fsdp=2", "mesh.tp=2"},
                                                                                      {"mesh.dp=2", "mesh.cp=2"}})
      all.emplace_back(family, mesh);
  return all;
}

std::string name_of_mesh_case(const testing::TestParamInfo<TrainingOverMeshes::ParamType>& info) {
  std::string name = info.param.first;
  for (const std::string& axis : info.param.second) {
    const size_t dot = axis.find('.'), equals = axis.find('=');
    name += axis.starts_with("mesh.") ? "_" + axis.substr(dot + 1, equals - dot - 1) : "";
    name += axis.starts_with("mesh.") ? axis.substr(equals + 1) : "_" + axis.substr(equals + 1);
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(, TrainingOverMeshes, testing::ValuesIn(cases({"gpt2", "llama", "mpt"})), name_of_mesh_case);
INSTANTIATE_TEST_SUITE_P(, TrainingOverStages, testing::ValuesIn(stage_cases()), name_of_mesh_case);
INSTANTIATE_TEST_SUITE_P(, MicroBatchesOverMeshes, testing::ValuesIn(cases({"llama"})), name_of_mesh_case);

}  // namespace
}  // namespace causeway::train
