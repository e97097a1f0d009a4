// Training with block-scaled 8-bit GEMMs (train.precision=fp8_block): by the kernels that multiply
// blocks, on devices without them, and over meshes.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "causeway/train/step/training_step.h"
#include "tests/fixtures/op_literal.h"
#include "tests/train/training_ranks.h"

namespace causeway::train {
namespace {

constexpr int64_t kTokens = 256, kBlockScaleSteps = 3;

Recipe block_scales_recipe(const std::vector<std::string>& overrides) {
  return parse_recipe(R"(name: blocks
model: {family: llama, vocabulary_size: 256, layers: 1, width: 256, heads: 2, ffn_width: 256, max_sequence_length: 64}
data: {path: data, sequence_length: 64}
train: {batch_size: 4}
)",
                      "recipe", overrides);
}

std::vector<StepFigures> train(const std::vector<std::string>& overrides, const std::string& device) {
  static const std::vector<int32_t> tokens = [] {
    std::vector<int32_t> tokens(kTokens + 1);
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * i * 7 % 251);
    return tokens;
  }();
  const Recipe recipe = block_scales_recipe(overrides);
  std::vector<StepFigures> figures;
  on_ranks(
      recipe.mesh,
      [&] {
        const auto model = LanguageModel::create(recipe.model, own_part(recipe), 5, weight_storage(recipe));
        TrainingStep step(*model, recipe);
        const int64_t parts = recipe.mesh.dp * recipe.mesh.fsdp, count = kTokens / parts;
        const int64_t first = parts > 1 ? Context::current()->rank() * count : 0;
        const auto own_tokens = [&](int64_t begin) {
          return std::span(tokens).subspan(static_cast<size_t>(begin), static_cast<size_t>(count));
        };
        const TrainingBatch batch{
            .inputs = own_tokens(first), .targets = own_tokens(first + 1), .documents = {}, .valid_targets = kTokens};
        std::vector<StepFigures> own;
        for (int64_t i = 0; i < kBlockScaleSteps; ++i) own.push_back(step.run(batch, i, 1e-3));
        if (Context::current()->mesh().empty() || Context::current()->rank() == 0) figures = own;
      },
      device);
  return figures;
}

// As a share of how far the loss falls, and of the norm.
void expect_near(const std::vector<StepFigures>& actual, const std::vector<StepFigures>& expected, double share_of_fall,
                 double share_of_norm) {
  const double fall = expected.front().loss - expected.back().loss;
  ASSERT_GT(fall, 0.3);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(actual[i].loss, expected[i].loss, share_of_fall * fall) << "step " << i;
    EXPECT_NEAR(actual[i].grad_norm, expected[i].grad_norm, share_of_norm * expected[i].grad_norm) << "step " << i;
  }
}

TEST(BlockScalesTraining, StaysNearF32) {
  const std::vector<StepFigures> exact = train({"train.precision=f32"}, "cpu");
  const std::vector<StepFigures> blocks = train({"train.precision=fp8_block"}, "cpu");
  expect_near(blocks, exact, 1e-2, 2e-2);
  const std::vector<StepFigures> bf16 = train({"train.precision=bf16"}, "cpu");
  EXPECT_NE(blocks.front().loss, bf16.front().loss) << "multiplied in 8 bits";
  const std::vector<StepFigures> tensors = train({"train.precision=fp8"}, "cpu");
  EXPECT_NE(blocks.front().loss, tensors.front().loss) << "other scales";
}

TEST(BlockScalesTraining, KernelsOfBlocksComputeWhatOtherDevicesDo) {
  const std::vector<StepFigures> expected = train({"train.precision=fp8_block"}, "cpu");
  for (const char* device : {"emulator:sm_90a", "emulator:gfx942"}) {
    SCOPED_TRACE(device);
    expect_near(train({"train.precision=fp8_block"}, device), expected, 1e-3, 2e-3);
  }
}

TEST(BlockScalesTraining, IsTheSameOverMeshes) {
  struct Case {
    std::string precision, device;
    std::vector<std::string> meshes;
  };
  for (const auto& [precision, device, meshes] :
       {Case{"fp8_block", "cpu", {"mesh.dp=2", "mesh.fsdp=2", "mesh.tp=2"}},
        Case{"fp8_block", "emulator:sm_90a", {"mesh.tp=2"}}, Case{"fp8", "cpu", {"mesh.fsdp=2", "mesh.tp=2"}}}) {
    const std::string with = "train.precision=" + precision;
    const std::vector<StepFigures> one = train({with}, device);
    for (const std::string& mesh : meshes) {
      SCOPED_TRACE(with + " " + mesh + " on " + device);
      expect_near(train({with, mesh}, device), one, 3e-3, 5e-3);
    }
  }
}

// In 8 bits, too, weights are gathered where they are cut, and not activations.
TEST(BlockScalesTraining, WeightsAreGatheredInEightBits) {
  const auto exchanges = [](const std::string& precision) {
    const Recipe recipe = block_scales_recipe({"mesh.fsdp=2", "train.precision=" + precision});
    std::map<Op, int> counts;
    on_ranks(
        recipe.mesh,
        [&] {
          const auto model = LanguageModel::create(recipe.model, own_part(recipe), 5, weight_storage(recipe));
          const std::vector<Graph> graphs = TrainingStep(*model, recipe).trace();
          if (Context::current()->rank() != 0) return;
          for (const Graph& graph : graphs) {
            const Graph local = Context::current()->run_passes(graph, pipeline_options(recipe));
            for (const Node& node : local.nodes()) ++counts[node.op];
          }
        },
        "emulator:sm_90a");
    return counts;
  };
  std::map<Op, int> bf16 = exchanges("bf16");
  EXPECT_GT(bf16["all_gather"_op], 7);
  for (const char* precision : {"fp8", "fp8_block"}) {
    std::map<Op, int> narrow = exchanges(precision);
    EXPECT_EQ(narrow["reduce_scatter"_op], bf16["reduce_scatter"_op]) << precision;
    EXPECT_EQ(narrow["all_to_all"_op], bf16["all_to_all"_op]) << precision;
  }
}

}  // namespace
}  // namespace causeway::train
