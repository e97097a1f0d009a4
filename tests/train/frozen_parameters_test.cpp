// Parameters that are not trained: what a step computes, holds and leaves alone.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "causeway/graph/op.h"
#include "causeway/program/context.h"
#include "causeway/train/step/training_step.h"

namespace causeway::train {
namespace {

Recipe half_frozen_recipe(const std::vector<std::string>& overrides) {
  return parse_recipe(R"(name: frozen
model: {family: llama, vocabulary_size: 48, layers: 3, width: 32, heads: 2, ffn_width: 64, max_sequence_length: 16}
data: {path: data, sequence_length: 16}
optimizer: {weight_decay: 0}
train: {batch_size: 4, precision: bf16}
)",
                      "recipe", overrides);
}

bool is_of_layer_1(const std::string& name) { return name.starts_with("model.layers.1.self_attn."); }

std::unique_ptr<LanguageModel> half_frozen_model(const Recipe& recipe, DType frozen_type) {
  return LanguageModel::create(recipe.model, own_part(recipe),
                               NewWeights{.seed = 3, .is_trained = is_of_layer_1, .frozen_type = frozen_type});
}

StepFigures run_frozen_step(TrainingStep& step, const Recipe& recipe, int64_t number) {
  std::vector<int32_t> tokens(static_cast<size_t>(recipe.train.batch_size * recipe.data.sequence_length)),
      targets(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<int32_t>(i * 7 % 48);
    targets[i] = static_cast<int32_t>((i * 7 + 7) % 48);
  }
  return step.run({tokens, targets, {}, static_cast<int64_t>(tokens.size())}, number, 1e-2);
}

// Also where micro-batches are added up.
TEST(FrozenParameters, StayAsTheyAreAndTakeOnlyTheirOwnBytes) {
  for (const char* device : {"cpu", "emulator:sm_90a"})
    for (const char* micro_batches : {"train.micro_batch_size=4", "train.micro_batch_size=2"}) {
      SCOPED_TRACE(fmt::format("{}, {}", device, micro_batches));
      const Recipe recipe = half_frozen_recipe({micro_batches});
      const ContextScope scope(Context::open(device));
      const Device& here = Context::current()->device();
      const auto model = half_frozen_model(recipe, DType::kBF16);
      TrainingStep step(*model, recipe);
      const StepCost cost = step.cost();
      int64_t frozen_bytes = 0, trained_bytes = 0;
      std::vector<std::vector<double>> before;
      for (const Parameter& parameter : model->parameters()) {
        EXPECT_EQ(parameter.is_trained, is_of_layer_1(parameter.name)) << parameter.name;
        const bool is_narrow = !parameter.is_trained && parameter.tensor.rank() == 2;
        EXPECT_EQ(parameter.tensor.dtype(), is_narrow ? DType::kBF16 : DType::kF32) << parameter.name;
        (parameter.is_trained ? trained_bytes : frozen_bytes) += parameter.tensor.local_bytes();
        before.push_back(parameter.tensor.values());
      }
      EXPECT_EQ(cost.parameter_bytes, frozen_bytes + trained_bytes);
      // Moments, and sums of gradients where there are several micro-batches.
      EXPECT_EQ(cost.optimizer_bytes, (recipe.micro_batches() > 1 ? 3 : 2) * trained_bytes);
      for (int64_t i = 0; i < 3; ++i) {
        EXPECT_TRUE(run_frozen_step(step, recipe, i).finite);
        EXPECT_EQ(here.peak_bytes(), cost.total_bytes()) << "step " << i;
      }
      for (size_t i = 0; i < before.size(); ++i) {
        const Parameter& parameter = model->parameters()[i];
        EXPECT_EQ(parameter.tensor.values() == before[i], !parameter.is_trained) << parameter.name;
      }
    }
}

// The backward pass ends at the first layer that has something to train, and no matrix that is frozen gets a gradient:
// 2 x rows x in x out FLOPs for each GEMM that is left.
TEST(FrozenParameters, NoGradientIsComputedForThem) {
  const Recipe recipe = half_frozen_recipe({"train.precision=f32"});
  const auto model = half_frozen_model(recipe, DType::kF32);
  TrainingStep step(*model, recipe);
  const Graph graph = step.trace().front();
  std::set<std::string> layers;
  int gemms = 0;
  for (const Node& node : graph.nodes()) {
    if (!node.backward) continue;
    if (node.scope.find("layers.0") != std::string::npos) layers.insert("0");
    gemms += node.op == Op::kDot ? 1 : 0;
  }
  EXPECT_TRUE(layers.empty()) << "gradients of a layer below the first that is trained";
  // Layer 2: inputs of q, k, v, o, gate, up and down. Layer 1: the same of its feed-forward layer and of o, and four
  // weights. The output layer's is not a dot in the graph as traced.
  EXPECT_EQ(gemms, 7 + 3 + 1 + 4);
}

// What lies in bf16 is multiplied as it is: no kernel casts it, and the values are those of f32 weights that are cast.
TEST(FrozenParameters, InBf16GiveTheLossOfWeightsThatAreCastInEveryStep) {
  const Recipe recipe = half_frozen_recipe({});
  std::vector<double> losses;
  for (const DType type : {DType::kBF16, DType::kF32}) {
    const auto model = half_frozen_model(recipe, type);
    // The embedding is read in its own type.
    for (const Parameter& parameter : model->parameters())
      if (parameter.name == "model.embed_tokens.weight" && type == DType::kF32) {
        std::vector<float> values;
        for (const double value : parameter.tensor.values())
          values.push_back(static_cast<float>(round_to_dtype(DType::kBF16, value)));
        Tensor table = parameter.tensor;
        table.write_bytes(std::as_bytes(std::span(values)));
      }
    TrainingStep step(*model, recipe);
    for (int64_t i = 0; i < 3; ++i) losses.push_back(run_frozen_step(step, recipe, i).loss);
    if (type != DType::kBF16) continue;
    // Casts of a whole frozen matrix to bf16 or from it.
    const Graph graph = Context::current()->run_passes(step.trace().front(), pipeline_options(recipe));
    for (const Node& node : graph.nodes())
      if (node.op == Op::kCast && graph.node(node.inputs[0]).op == Op::kInput &&
          graph.dtype(node.inputs[0]) == DType::kBF16)
        ADD_FAILURE() << "a frozen weight is cast: " << graph.node(node.inputs[0]).attributes.name << " to "
                      << dtype_name(node.outputs[0].dtype) << " " << shape_text(node.outputs[0].shape);
  }
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(losses[i], losses[i + 3]) << "step " << i;
  EXPECT_LT(losses[2], losses[0]);
}

}  // namespace
}  // namespace causeway::train
