// A model family is one description: this one is known to this test alone, and recipes, messages, config.json, weights
// and training know it while it is registered.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "causeway/base/error.h"
#include "causeway/formats/hugging_face_config.h"
#include "causeway/model/family.h"
#include "causeway/model/hugging_face.h"
#include "causeway/tensor/ops.h"
#include "causeway/train/recipe/recipe.h"
#include "causeway/train/step/training_step.h"
#include "tests/fixtures/temporary_directory.h"

namespace causeway::train {
namespace {

// No attention: x = x + scale * W x for every layer, from which the next token follows by the last one alone.
class Pointwise final : public LanguageModel {
 public:
  Pointwise(const ModelConfig& c, const ModelPart& part, const NewWeights& weights) : LanguageModel(c, part) {
    const ParameterDim vocabulary{c.vocabulary_size, LogicalDim::kVocabulary}, width{c.width, LogicalDim::kWidth};
    embedding_ = declare("embedding.weight", {vocabulary, width}, Initial::kNormal, weights);
    for (int64_t i = 0; i < c.layers; ++i)
      layers_.push_back(declare(fmt::format("layers.{}.weight", i), {width, width}, Initial::kResidualNormal, weights));
    if (c.own_truth("final_norm")) norm_ = declare("norm.weight", {width}, Initial::kOnes, weights);
  }

  Tensor embed(const ForwardInputs& inputs) const override { return embedding(inputs.tokens, embedding_); }
  Tensor run_layer(int64_t layer, const Tensor& x, const ForwardInputs&) const override {
    return x + linear(x, layers_[static_cast<size_t>(layer)]) * config().own_number("residual_scale");
  }
  Tensor last_norm(const Tensor& x) const override {
    return norm_.defined() ? rms_norm(x, norm_, config().norm_epsilon) : x;
  }
  Tensor output_weight() const override { return embedding_; }

 private:
  Tensor embedding_, norm_;
  std::vector<Tensor> layers_;
};

ModelFamily pointwise() {
  ModelFamily family;
  family.name = "pointwise";
  family.keys = {positive_key("residual_scale", 1.0, "of what a layer adds"),
                 {"final_norm", false, "a norm before the output", {}}};
  family.always_tied = true;
  family.usual_ffn_width = [](int64_t width) { return width; };
  family.parameter_count = [](const ModelConfig& c) {
    return (c.vocabulary_size + c.layers * c.width) * c.width + (c.own_truth("final_norm") ? c.width : 0);
  };
  family.build = [](const ModelConfig& config, const ModelPart& part,
                    const NewWeights& weights) -> std::unique_ptr<LanguageModel> {
    return std::make_unique<Pointwise>(config, part, weights);
  };
  const auto entries = [](HuggingFaceConfig& file, ModelConfig& c) {
    file.required("n_embd", c.width);
    file.required("n_layer", c.layers);
    double scale = c.own_number("residual_scale");
    file.optional("residual_scale", scale, 1.0);
    c.own["residual_scale"] = scale;
    bool norm = c.own_truth("final_norm");
    file.optional("final_norm", norm, false);
    c.own["final_norm"] = norm;
  };
  family.hugging_face = {.model_type = "pointwise_lm", .architecture = "PointwiseForCausalLM", .entries = entries};
  return family;
}

constexpr char kPointwiseRecipe[] = R"(name: small
model: {family: pointwise, vocabulary_size: 16, layers: 2, width: 8, residual_scale: 0.5, final_norm: true}
data: {path: data, sequence_length: 8}
optimizer: {learning_rate: 0.02}
train: {batch_size: 2, precision: f32}
)";

std::string error_of_family(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  try {
    parse_recipe(yaml, "file.yaml", overrides);
  } catch (const Error& error) {
    return error.where() + ": " + error.message() + " | " + error.hint();
  }
  return "no error";
}

TEST(RegisteredFamily, IsKnownToRecipesWhileItIsRegistered) {
  const auto keys = [] {
    std::vector<std::string> names;
    for (const RecipeKey& key : recipe_keys()) names.push_back(key.key);
    return names;
  };
  const std::vector<std::string> before = keys();
  {
    const RegisteredFamily registered(pointwise());
    const Recipe recipe = parse_recipe(kPointwiseRecipe, "file.yaml", {});
    EXPECT_EQ(recipe.model.own_number("residual_scale"), 0.5);
    EXPECT_TRUE(recipe.model.own_truth("final_norm"));
    EXPECT_EQ(parse_recipe(recipe_text(recipe), "file.yaml", {}).model, recipe.model);
    EXPECT_EQ(
        recipe_differences(recipe, parse_recipe(kPointwiseRecipe, "file.yaml", {"model.residual_scale=2"})).size(), 1u);
    EXPECT_EQ(keys().size(), before.size() + 2);
    for (const RecipeKey& key : recipe_keys()) {
      if (key.key == "model.family") {
        EXPECT_EQ(key.meaning,
                  "gemma2, gpt2, llama, mistral, mixtral, mpt, olmo2, olmoe, qwen2, qwen2_moe, qwen3, qwen3_moe or "
                  "pointwise");
        EXPECT_EQ(key.choices.back(), "pointwise");
      }
      if (key.key == "model.residual_scale") {
        EXPECT_EQ(key.meaning, "of what a layer adds (pointwise)");
        EXPECT_EQ(key.default_value, "1");
      }
    }
    EXPECT_EQ(error_of_family(kPointwiseRecipe, {"model.residual_scale=0"}),
              "command line: model.residual_scale: must be above 0 | ");
    EXPECT_EQ(error_of_family("model: {residual_scale: 2}"),
              "file.yaml: model.residual_scale: has no effect on llama: it belongs to pointwise | Delete the key, or "
              "choose what it belongs to.");
    EXPECT_EQ(error_of_family("model: {family: pointwis}"),
              "file.yaml: model.family: unknown model family 'pointwis' | Did you mean pointwise?");
  }
  EXPECT_EQ(keys(), before);
  EXPECT_EQ(error_of_family("model: {family: pointwise}"),
            "file.yaml: model.family: unknown model family 'pointwise' | Families are gemma2, gpt2, llama, mistral, "
            "mixtral, mpt, olmo2, olmoe, qwen2, qwen2_moe, qwen3 and qwen3_moe.");
  EXPECT_EQ(error_of_family("model: {residual_scale: 2}"),
            "file.yaml: model.residual_scale: unknown key | `causeway recipe keys` lists all keys.");
}

TEST(RegisteredFamily, SurvivesHuggingFacesFormat) {
  const RegisteredFamily registered(pointwise());
  const ModelConfig config = parse_recipe(kPointwiseRecipe, "file.yaml", {}).model;
  const nlohmann::json json = to_hugging_face(config);
  EXPECT_EQ(json["model_type"], "pointwise_lm");
  EXPECT_EQ(json["architectures"], nlohmann::json::array({"PointwiseForCausalLM"}));
  const auto model = LanguageModel::create(config, 3);
  const TemporaryDirectory directory;
  save_hugging_face_model(*model, directory / "model");
  const auto loaded = load_hugging_face_model(directory / "model");
  ASSERT_EQ(loaded->parameters().size(), 4u);
  int64_t parameters = 0;
  for (size_t i = 0; i < 4; ++i) {
    const std::vector<double> values = model->parameters()[i].tensor.values();
    EXPECT_EQ(loaded->parameters()[i].tensor.values(), values) << model->parameters()[i].name;
    parameters += static_cast<int64_t>(values.size());
  }
  EXPECT_EQ(parameter_count(config), parameters);
  try {
    from_hugging_face({{"model_type", "falcon"}, {"vocab_size", 5}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.hint(),
              "Implemented are gemma2, gpt2, llama, mistral, mixtral, mpt, olmo2, olmoe, qwen2, qwen2_moe, qwen3, "
              "qwen3_moe and pointwise_lm.");
  }
}

TEST(RegisteredFamily, Learns) {
  const RegisteredFamily registered(pointwise());
  const Recipe recipe = parse_recipe(kPointwiseRecipe, "file.yaml", {});
  const auto model = LanguageModel::create(recipe.model, 1);
  TrainingStep step(*model, recipe);
  std::vector<int32_t> inputs, targets;
  for (int32_t i = 0; i < 16; ++i) {
    inputs.push_back(i);
    targets.push_back((i + 5) % 16);
  }
  TrainingBatch batch;
  batch.inputs = inputs;
  batch.targets = targets;
  batch.valid_targets = 16;
  const double first = step.run(batch, 0, recipe.optimizer.learning_rate).loss;
  double last = first;
  for (int64_t i = 1; i < 60; ++i) last = step.run(batch, i, recipe.optimizer.learning_rate).loss;
  EXPECT_NEAR(first, std::log(16), 0.1);
  EXPECT_LT(last, first / 2);
}

}  // namespace
}  // namespace causeway::train
