// Steps that begin before those before them are finished: the same figures, and nothing after one that is not finite.
#include <gtest/gtest.h>

#include <limits>

#include "causeway/program/context.h"
#include "causeway/train/step/training_step.h"

namespace causeway::train {
namespace {

class RunningAhead : public testing::Test {
 protected:
  RunningAhead()
      : scope_(Context::open("emulator:sm_90a")),
        recipe_(parse_recipe("name: small\n"
                             "model: {family: llama, vocabulary_size: 48, layers: 1, width: 16, heads: 2,\n"
                             "        ffn_width: 24, max_sequence_length: 8}\n"
                             "data: {path: data, sequence_length: 8}\n"
                             "train: {batch_size: 4, precision: f32}\n",
                             "recipe", {})) {}

  TrainingBatch batch(int64_t step) {
    inputs_.resize(static_cast<size_t>(recipe_.train.batch_size * 8));
    targets_.resize(inputs_.size());
    for (size_t k = 0; k < inputs_.size(); ++k) {
      inputs_[k] = static_cast<int32_t>((7 * k + static_cast<size_t>(step)) % 48);
      targets_[k] = static_cast<int32_t>((7 * k + 5 + static_cast<size_t>(step)) % 48);
    }
    return {inputs_, targets_, {}, static_cast<int64_t>(targets_.size())};
  }

  std::unique_ptr<LanguageModel> make_model() const { return LanguageModel::create(recipe_.model, 7); }

  static std::vector<double> weights_of(const LanguageModel& model) {
    std::vector<double> all;
    for (const Parameter& parameter : model.parameters()) {
      const std::vector<double> values = parameter.tensor.values();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

  const ContextScope scope_;
  Recipe recipe_;
  std::vector<int32_t> inputs_, targets_;
};

TEST_F(RunningAhead, GivesTheSameFiguresAndWeights) {
  for (const int64_t micro_batch : {4, 2}) {
    recipe_.train.micro_batch_size = micro_batch;
    const auto one = make_model(), other = make_model();
    TrainingStep in_turn(*one, recipe_), ahead(*other, recipe_);
    ASSERT_TRUE(ahead.may_run_ahead());
    std::vector<StepFigures> expected, figures;
    for (int64_t i = 0; i < 5; ++i) expected.push_back(in_turn.run(batch(i), i, 1e-2));
    ahead.begin(batch(0), 0, 1e-2);
    for (int64_t i = 1; i < 5; ++i) {
      EXPECT_FALSE(ahead.state_is_whole());
      ahead.begin(batch(i), i, 1e-2);
      figures.push_back(ahead.finish());
    }
    figures.push_back(ahead.finish());
    EXPECT_TRUE(ahead.state_is_whole());
    for (size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(figures[i].loss, expected[i].loss) << i;
      EXPECT_EQ(figures[i].grad_norm, expected[i].grad_norm) << i;
      EXPECT_TRUE(figures[i].finite);
      EXPECT_EQ(figures[i].seconds_after_last > 0, i > 0) << i;
    }
    EXPECT_NE(figures[0].loss, figures[1].loss);
    EXPECT_EQ(weights_of(*other), weights_of(*one));
  }
}

// The recipe stops at such a step, so the next one, which is under way by then, must leave the weights as they are.
TEST_F(RunningAhead, NothingChangesAfterAStepThatIsNotFinite) {
  for (const int64_t micro_batch : {4, 2}) {
    recipe_.train.micro_batch_size = micro_batch;
    const auto model = make_model();
    TrainingStep step(*model, recipe_);
    // Of an infinite rate the figures are finite, and the weights are not any more.
    EXPECT_TRUE(step.run(batch(0), 0, std::numeric_limits<double>::infinity()).finite);
    step.begin(batch(1), 1, 1e-2);
    step.begin(batch(2), 2, 1e-2);
    EXPECT_FALSE(step.finish().finite);
    EXPECT_FALSE(step.finish().finite);
    // Not even weights that are finite again.
    for (const Parameter& parameter : model->parameters()) {
      const std::vector<float> halves(static_cast<size_t>(parameter.tensor.local_bytes()) / sizeof(float), 0.5f);
      Tensor tensor = parameter.tensor;
      tensor.write_bytes(std::as_bytes(std::span(halves)));
    }
    const std::vector<double> before = weights_of(*model);
    EXPECT_FALSE(step.run(batch(3), 3, 1e-2).finite);
    EXPECT_EQ(weights_of(*model), before);
  }
}

TEST_F(RunningAhead, IsOfGpusWhereTheRecipeStops) {
  const auto model = make_model();
  recipe_.train.on_non_finite = FaultPolicy::kSkip;
  EXPECT_FALSE(TrainingStep(*model, recipe_).may_run_ahead());
  const ContextScope processor(Context::open("cpu"));
  recipe_.train.on_non_finite = FaultPolicy::kStop;
  const auto on_processor = make_model();
  EXPECT_FALSE(TrainingStep(*on_processor, recipe_).may_run_ahead());
}

}  // namespace
}  // namespace causeway::train
