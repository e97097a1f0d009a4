// Training with weights that lie in halves: what it computes and what its checkpoints hold is that of weights that do
// not.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <map>

#include "causeway/train/checkpoint/run_checkpoint.h"
#include "causeway/train/ranks.h"
#include "tests/fixtures/temporary_directory.h"
#include "tests/train/training_ranks.h"

namespace causeway::train {
namespace {

constexpr char kHalvesRecipe[] = R"(name: halves
model: {family: llama, vocabulary_size: 256, layers: 2, width: 32, heads: 2, ffn_width: 64, max_sequence_length: 16}
data: {path: data, sequence_length: 16}
train: {batch_size: 4, micro_batch_size: 4, precision: bf16}
)";

using Values = std::map<std::string, std::vector<double>>;

class WeightsInHalves : public testing::TestWithParam<std::string> {
 protected:
  // Four steps, or the fewer before one that multiplies a weight half way between two numbers of bf16, which a cast
  // and halves round to other ones.
  struct Trained {
    std::vector<double> losses, norms;
    Values weights;
    size_t in_halves = 0;
  };

  WeightsInHalves() { std::ofstream(directory_ / "text.bin", std::ios::binary) << std::string(2000, '\1'); }

  static TrainingBatch batch() {
    static const std::vector<int32_t> tokens = [] {
      std::vector<int32_t> tokens(4 * 16 + 1);
      for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * i * 7 % 251);
      return tokens;
    }();
    return {.inputs = std::span(tokens).first(64),
            .targets = std::span(tokens).subspan(1),
            .documents = {},
            .valid_targets = 64};
  }

  static Values weights_of(const LanguageModel& model) {
    Values weights;
    for (const Parameter& parameter : model.parameters()) weights[parameter.name] = own_part(parameter.tensor).values;
    return weights;
  }

  // On any rank.
  static bool any_is_half_way(const LanguageModel& model) {
    bool found = false;
    for (const Parameter& parameter : model.parameters())
      if (parameter.only_multiplied)
        found |= std::ranges::any_of(own_part(parameter.tensor).values, [](double value) {
          return (std::bit_cast<uint32_t>(static_cast<float>(value)) & 0x1ffffU) == 0x8000U;
        });
    return !Ranks(*Context::current()).all_of(!found);
  }

  Recipe recipe(const std::vector<std::string>& overrides) const {
    Recipe recipe = parse_recipe(kHalvesRecipe, "recipe", overrides);
    recipe.run_directory = (directory_ / "run").string();
    return recipe;
  }

  // The first rank's part.
  Trained train(const Recipe& recipe, WeightStorage storage) const {
    Trained trained;
    on_ranks(
        recipe.mesh,
        [&] {
          const auto model = LanguageModel::create(recipe.model, own_part(recipe), 6, storage);
          TrainingStep step(*model, recipe);
          Trained own;
          for (int64_t i = 0; i < 4 && !any_is_half_way(*model); ++i) {
            const StepFigures figures = step.run(batch(), i, 1e-3);
            own.losses.push_back(figures.loss);
            own.norms.push_back(figures.grad_norm);
          }
          own.weights = weights_of(*model);
          own.in_halves = static_cast<size_t>(std::ranges::count_if(
              model->parameters(), [](const Parameter& parameter) { return parameter.tensor.lies_in_halves(); }));
          if (Context::current()->mesh().empty() || Context::current()->rank() == 0) trained = own;
        },
        GetParam());
    return trained;
  }

  void expect_the_same(const std::vector<std::string>& overrides) const {
    const Recipe with = recipe(overrides);
    const Trained halves = train(with, WeightStorage::kHalves), elements = train(with, WeightStorage::kElements);
    EXPECT_EQ(halves.in_halves, 15u);  // of two layers and the output; neither embeddings nor norms
    EXPECT_GE(halves.losses.size(), 2u);
    EXPECT_EQ(elements.in_halves, 0u);
    EXPECT_EQ(halves.losses, elements.losses);
    EXPECT_EQ(halves.norms, elements.norms);
    EXPECT_EQ(halves.weights, elements.weights);
    EXPECT_LT(halves.losses.back(), halves.losses.front() - 0.01);
  }

  TemporaryDirectory directory_;
};

TEST_P(WeightsInHalves, TrainAsElementsDo) { expect_the_same({}); }
TEST_P(WeightsInHalves, InMicroBatchesToo) { expect_the_same({"train.micro_batch_size=2", "train.recompute=block"}); }

TEST_P(WeightsInHalves, AreSavedAndRestoredAsElements) {
  const ContextScope scope(Context::open(GetParam()));
  const Recipe with = recipe({});
  const TokenDataset dataset = TokenDataset::open(directory_ / "text.bin");
  std::filesystem::create_directories(with.run_directory);
  std::filesystem::path checkpoint, again;
  Values expected;
  {
    const auto model = LanguageModel::create(with.model, 5, WeightStorage::kHalves);
    TrainingStep step(*model, with);
    const RunParts parts{with, dataset, nullptr, *model, step};
    step.run(batch(), 0, 1e-3);
    expected = weights_of(*model);
    EXPECT_TRUE(run_state_is_finite(parts));
    checkpoint = save_run(parts, {.step = 1}, {.chunk_bytes = 512});
    // From a copy, while the weights go on.
    const Ranks ranks(*Context::current());
    StateSnapshot snapshot(Context::current(), tensors_to_write(parts));
    snapshot.allocate();
    snapshot.begin();
    step.run(batch(), 1, 1e-3);
    snapshot.finish();
    EXPECT_NE(weights_of(*model), expected);
    again = checkpoint_of_run(parts, {.step = 2}, {.chunk_bytes = 512}, ranks, &snapshot).commit();
  }
  for (const std::filesystem::path& saved : {checkpoint, again}) {
    for (const WeightStorage storage : {WeightStorage::kElements, WeightStorage::kHalves}) {
      const auto model = LanguageModel::create(with.model, 6, storage);
      TrainingStep step(*model, with);
      EXPECT_NE(weights_of(*model), expected);
      restore_run(CheckpointReader(saved), {with, dataset, nullptr, *model, step});
      EXPECT_EQ(weights_of(*model), expected);
    }
  }
}

std::string device_name(const testing::TestParamInfo<std::string>& device) {
  std::string name = device.param;
  std::ranges::replace(name, ':', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Devices, WeightsInHalves, testing::Values("cpu", "emulator:sm_90a"), device_name);

using WeightsInHalvesOverRanks = WeightsInHalves;

TEST_P(WeightsInHalvesOverRanks, TrainAsElementsDo) {
  for (const char* axis : {"mesh.fsdp=2", "mesh.dp=2", "mesh.tp=2"}) {
    SCOPED_TRACE(axis);
    expect_the_same({axis});
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, WeightsInHalvesOverRanks, testing::Values("cpu"), device_name);

}  // namespace
}  // namespace causeway::train
