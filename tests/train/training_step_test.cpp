#include "causeway/train/step/training_step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "causeway/model/hugging_face.h"
#include "tests/comparison/bounds.h"
#include "tests/fixtures/op_literal.h"

namespace causeway::train {
namespace {

std::filesystem::path training_step_fixture(const std::string& name) {
  return std::filesystem::path(CAUSEWAY_SOURCE_DIR) / "tests/fixtures/parity" / name;
}

HostTensor expected(const SafetensorsFile& file, const std::string& name) {
  return from_bytes(file.dtype(name), file.entry(name).shape, file.data(name).data());
}

std::vector<int32_t> as_integers(const HostTensor& tensor) { return {tensor.values.begin(), tensor.values.end()}; }

// The fixture's batch and its optimizer's settings.
class LlamaRun : public testing::Test {
 protected:
  LlamaRun()
      : file_(training_step_fixture("llama") / "expected.safetensors"),
        inputs_(as_integers(expected(file_, "input_ids"))),
        targets_(as_integers(expected(file_, "labels"))) {
    recipe_.model = read_hugging_face_config(training_step_fixture("llama"));
    recipe_.data.sequence_length = 24;
    recipe_.optimizer = {.learning_rate = 1e-3,
                         .weight_decay = 0.1,
                         .gradient_clip = 1.0,
                         .own = {{"beta1", 0.9}, {"beta2", 0.95}, {"epsilon", 1e-6}}};
    recipe_.train.batch_size = 2;
    recipe_.train.micro_batch_size = 2;
    recipe_.train.precision = Precision::kF32;
  }

  TrainingBatch batch() const {
    TrainingBatch batch;
    batch.inputs = inputs_;
    batch.targets = targets_;
    batch.valid_targets = std::count_if(targets_.begin(), targets_.end(), [](int32_t t) { return t >= 0; });
    return batch;
  }

  // Ten steps and the loss after them, against the fixture's AdamW.
  void expect_fixtures_curve() {
    const auto model = load_hugging_face_model(training_step_fixture("llama"));
    TrainingStep step(*model, recipe_);
    const HostTensor losses = expected(file_, "train.losses"), norms = expected(file_, "train.grad_norms");
    for (int64_t i = 0; i < 10; ++i) {
      const StepFigures figures = step.run(batch(), i, recipe_.optimizer.learning_rate);
      const auto index = static_cast<size_t>(i);
      EXPECT_TRUE(figures.finite) << "step " << i;
      EXPECT_NEAR(figures.loss, losses.values[index], 1e-4 * losses.values[index]) << "step " << i;
      EXPECT_NEAR(figures.grad_norm, norms.values[index], 5e-4 * norms.values[index]) << "step " << i;
    }
    // The fixture computes in doubles. AdamW's first step moves a weight by rate * g / (|g| + epsilon): the rounding of
    // a small gradient moves it by the rate times that rounding over epsilon, so single weights may be further off.
    for (const Parameter& parameter : model->parameters()) {
      const HostTensor reference = expected(file_, "train.param." + parameter.name);
      const HostTensor actual = {DType::kF32, reference.shape, parameter.tensor.values()};
      const Comparison comparison = compare(actual, reference, {.rms = 2e-6, .row = 4e-5, .ulps = 1});
      EXPECT_TRUE(comparison.equal) << parameter.name << ": " << comparison.text;
    }
    const StepFigures last = step.run(batch(), 10, recipe_.optimizer.learning_rate);
    const double final_loss = expected(file_, "train.final_loss").values.front();
    EXPECT_NEAR(last.loss, final_loss, 1e-4 * final_loss);
  }

  // Ten steps in the recipe's precision. Losses may differ by a share of how far the fixture's fall over them, so that
  // steps that do little or nothing show; norms of gradients by a share of themselves, so that one that is missing
  // does.
  void expect_losses_near_the_fixtures(double share_of_fall, double share_of_norm) {
    const auto model = load_hugging_face_model(training_step_fixture("llama"));
    TrainingStep step(*model, recipe_);
    const HostTensor losses = expected(file_, "train.losses"), norms = expected(file_, "train.grad_norms");
    const double fall = losses.values.front() - losses.values.back();
    ASSERT_GT(fall, 2);
    bool differs = false;
    for (int64_t i = 0; i < 10; ++i) {
      const StepFigures figures = step.run(batch(), i, 1e-3);
      const double loss = losses.values[static_cast<size_t>(i)], norm = norms.values[static_cast<size_t>(i)];
      EXPECT_NEAR(figures.loss, loss, share_of_fall * fall) << "step " << i;
      EXPECT_NEAR(figures.grad_norm, norm, share_of_norm * norm) << "step " << i;
      differs |= std::abs(figures.loss - loss) > 1e-4 * fall;
    }
    EXPECT_TRUE(differs) << "computed in another precision";
  }

  SafetensorsFile file_;
  std::vector<int32_t> inputs_, targets_;
  Recipe recipe_;
};

TEST_F(LlamaRun, FollowsTheFixturesCurve) { expect_fixtures_curve(); }

TEST_F(LlamaRun, FollowsItInMicroBatches) {
  recipe_.train.micro_batch_size = 1;
  expect_fixtures_curve();
}

TEST_F(LlamaRun, FollowsItWithRecomputedActivations) {
  recipe_.train.recompute = RecomputePolicy::kBlock;
  expect_fixtures_curve();
}

TEST_F(LlamaRun, StaysNearItInMixedPrecision) {
  recipe_.train.precision = Precision::kBf16;
  expect_losses_near_the_fixtures(2e-3, 1e-2);
}

// The fixture's embedding is no output layer.
TEST_F(LlamaRun, GradientsOfMatricesAreRoundedWhereNothingIsAddedToThem) {
  const auto roundings = [&] {
    const auto model = load_hugging_face_model(training_step_fixture("llama"));
    int count = 0;
    for (const Graph& graph : TrainingStep(*model, recipe_).trace())
      for (const Node& node : graph.nodes()) count += node.op == "cast"_op && node.outputs[0].dtype == DType::kBF16;
    return count;
  };
  const auto norm = [&] {
    const auto model = load_hugging_face_model(training_step_fixture("llama"));
    return TrainingStep(*model, recipe_).run(batch(), 0, 1e-3).grad_norm;
  };
  EXPECT_EQ(roundings(), 0);
  for (const Precision precision : {Precision::kBf16, Precision::kFp8}) {
    recipe_.train.precision = precision;
    EXPECT_EQ(roundings(), 7 * recipe_.model.layers + 1) << name_of(precision);
  }
  recipe_.train.precision = Precision::kBf16;
  const double rounded = norm();
  recipe_.train.gradients = GradientType::kF32;
  EXPECT_EQ(roundings(), 0);
  EXPECT_NE(norm(), rounded);
  EXPECT_NEAR(norm(), rounded, 1e-3 * rounded);
  recipe_.train.gradients = GradientType::kAuto;
  recipe_.train.micro_batch_size = 1;
  EXPECT_EQ(roundings(), 0);
}

TEST_F(LlamaRun, StaysNearItInEightBits) {
  // The same graph, compiled for another precision in the same process.
  recipe_.train.precision = Precision::kBf16;
  const auto other = load_hugging_face_model(training_step_fixture("llama"));
  const double in_bf16 = TrainingStep(*other, recipe_).run(batch(), 0, 1e-3).loss;
  recipe_.train.precision = Precision::kFp8;
  const auto model = load_hugging_face_model(training_step_fixture("llama"));
  EXPECT_NE(TrainingStep(*model, recipe_).run(batch(), 0, 1e-3).loss, in_bf16);
  expect_losses_near_the_fixtures(2.5e-2, 0.12);
}

TEST_F(LlamaRun, TheSameStepsGiveTheSameBits) {
  recipe_.model.dropout = 0.1;
  std::vector<std::vector<double>> weights;
  for (int run = 0; run < 2; ++run) {
    const auto model = LanguageModel::create(recipe_.model, 4);
    TrainingStep step(*model, recipe_);
    for (int64_t i = 0; i < 3; ++i) step.run(batch(), i, 1e-3);
    weights.emplace_back();
    for (const Parameter& parameter : model->parameters()) {
      const std::vector<double> values = parameter.tensor.values();
      weights.back().insert(weights.back().end(), values.begin(), values.end());
    }
  }
  EXPECT_EQ(weights[0], weights[1]);
}

TEST_F(LlamaRun, AStepThatIsNotFiniteChangesNothing) {
  const auto model = load_hugging_face_model(training_step_fixture("llama"));
  TrainingStep step(*model, recipe_);
  Tensor weight = model->parameter("model.layers.1.mlp.up_proj.weight").tensor;
  std::vector<double> broken = weight.values();
  broken[3] = std::nan("");
  const Tensor replaced = Tensor::from_values(broken, evaluate(weight.shape(), {}));
  std::vector<std::byte> bytes(broken.size() * sizeof(float));
  replaced.read_bytes(bytes);
  weight.write_bytes(bytes);
  const std::vector<double> embedding = model->parameter("model.embed_tokens.weight").tensor.values();
  EXPECT_FALSE(step.run(batch(), 0, 1e-3).finite);
  EXPECT_EQ(model->parameter("model.embed_tokens.weight").tensor.values(), embedding);
  for (const TrainingStep::StateTensor& state : step.optimizer_state())
    for (const double value : state.tensor.values()) ASSERT_EQ(value, 0) << state.name;
  const std::optional<NonFiniteValue> found = step.find_non_finite(batch(), 0, 1e-3);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->scope, "layers.1.mlp");
}

TEST_F(LlamaRun, CostIsKnownBeforeTheFirstStep) {
  const auto model = load_hugging_face_model(training_step_fixture("llama"));
  TrainingStep step(*model, recipe_);
  const StepCost cost = step.cost();
  EXPECT_EQ(cost.parameter_bytes, 4 * parameter_count(recipe_.model));
  EXPECT_EQ(cost.optimizer_bytes, 8 * parameter_count(recipe_.model));
  EXPECT_GT(cost.arena_bytes, 0);
  // Two flops for each weight of a GEMM and token, and attention's two products over 24 x 25 / 2 pairs.
  const int64_t rows = 48, width = 64, kv = 32, ffn = 96, layers = 2, vocabulary = 96;
  const int64_t matrices = layers * (2 * width * width + 2 * width * kv + 3 * width * ffn) + vocabulary * width;
  const int64_t pairs = 2 * 24 * 25 / 2;
  const double forward = static_cast<double>(2 * rows * matrices + layers * 4 * pairs * width);
  EXPECT_NEAR(cost.flops.forward, forward, 0.02 * forward);
}

}  // namespace
}  // namespace causeway::train
