// Targets that weigh something else than 1: losses against PyTorch's (tools/make_weighted_chat_fixtures.py), however a
// batch is cut.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "causeway/data/batch_loader.h"
#include "causeway/data/prepare.h"
#include "causeway/formats/tokenizer/json_tokenizer.h"
#include "causeway/model/hugging_face.h"
#include "causeway/train/evaluation.h"
#include "causeway/train/step/training_step.h"
#include "causeway/train/training_data.h"
#include "tests/fixtures/data_test_support.h"
#include "tests/train/training_ranks.h"

namespace causeway::train {
namespace {

std::filesystem::path weighted_training_fixtures() {
  return std::filesystem::path(CAUSEWAY_SOURCE_DIR) / "tests/fixtures/chat";
}

std::vector<double> expected_weighted_losses() {
  return nlohmann::json::parse(read_text_file(weighted_training_fixtures() / "weighted_expected.json"))["losses"];
}

class WeightedTraining : public testing::Test {
 protected:
  WeightedTraining() {
    PrepareOptions options;
    options.inputs = {weighted_training_fixtures() / "weighted.json"};
    options.output = directory_ / "chat";
    options.chat.emplace();
    options.chat->templates = find_chat_templates(weighted_training_fixtures().string());
    prepare_dataset(options, formats::JsonTokenizer::load(weighted_training_fixtures()));
  }

  // The fixture's four conversations, packed into three samples.
  Recipe recipe(int64_t sequence_length) const {
    Recipe recipe;
    recipe.model = read_hugging_face_config(weighted_training_fixtures());
    recipe.data.path = (directory_ / "chat").string();
    recipe.data.sequence_length = sequence_length;
    recipe.data.packing = Packing::kDocuments;
    recipe.data.weighs_targets = true;
    recipe.optimizer = {.learning_rate = 1e-3,
                        .weight_decay = 0.1,
                        .gradient_clip = 1.0,
                        .own = {{"beta1", 0.9}, {"beta2", 0.95}, {"epsilon", 1e-8}}};
    recipe.train.precision = Precision::kF32;
    recipe.train.batch_size = recipe.train.micro_batch_size = 4;
    return recipe;
  }

  // In the current context, each step over all conversations and rows of padding.
  static std::vector<double> losses(const Recipe& recipe, int64_t steps, bool with_weights = true) {
    const TokenDataset dataset = TokenDataset::open(recipe.data.path);
    const DocumentPacking packing(dataset, 0, recipe.data.sequence_length);
    const auto model = LanguageModel::create(recipe.model, own_part(recipe), new_weights(recipe));
    load_parameters(*model, SafetensorsModel(weighted_training_fixtures()));
    TrainingStep step(*model, recipe);
    BatchOptions options;
    options.sequence_length = recipe.data.sequence_length;
    options.global_batch_size = recipe.train.batch_size;
    options.micro_batches = recipe.micro_batches();
    options.first_row = step.own_rows().first;
    options.rows = step.own_rows().count;
    options.document_numbers = options.ignore_targets_across_documents = true;
    options.read_ahead = 0;
    std::vector<double> losses;
    for (int64_t i = 0; i < steps; ++i) {
      BatchLoader loader(dataset, packing, packing.sample_count(), options);
      const Batch& batch = loader.next();
      TrainingBatch host{batch.inputs, batch.targets, batch.documents, batch.global_valid_targets};
      if (with_weights) {
        host.target_weights = batch.target_weights;
        host.target_weight = batch.global_target_weight;
      }
      losses.push_back(step.run(host, i, recipe.optimizer.learning_rate).loss);
    }
    return losses;
  }

  static void expect_losses(const std::vector<double>& found) {
    const std::vector<double> want = expected_weighted_losses();
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], want[i], 1e-4) << "step " << i;
  }

  TemporaryDirectory directory_;
};

TEST_F(WeightedTraining, FollowsPyTorchsLosses) {
  const std::vector<double> found = losses(recipe(96), 30);
  ASSERT_EQ(found.size(), expected_weighted_losses().size());
  expect_losses(found);
  // What is heavy is learnt first: by equal weights other losses come out from the first step on.
  Recipe equal = recipe(96);
  equal.data.weighs_targets = false;
  EXPECT_GT(std::abs(losses(equal, 1, false).front() - found.front()), 1e-2);
}

// Micro-batches have sums of weights of their own, from 1.3 to 67.5: the loss is no mean of their means.
TEST_F(WeightedTraining, FollowsThemInMicroBatches) {
  for (const int64_t micro_batch : {1, 2}) {
    Recipe in_parts = recipe(88);
    in_parts.train.micro_batch_size = micro_batch;
    expect_losses(losses(in_parts, 12));
  }
}

TEST_F(WeightedTraining, FollowsThemOnEveryMesh) {
  for (const MeshAxisId axis : {MeshAxisId::kDp, MeshAxisId::kFsdp, MeshAxisId::kCp, MeshAxisId::kPp}) {
    Recipe cut = recipe(96);
    cut.mesh.size(axis) = 2;
    cut.train.micro_batch_size = axis == MeshAxisId::kPp ? 2 : 4;
    on_ranks(cut.mesh, [&] { expect_losses(losses(cut, 6)); });
  }
}

TEST_F(WeightedTraining, IsEvaluatedByItsWeights) {
  for (const int64_t rows : {1, 3}) {
    Recipe of_run = recipe(96);
    of_run.train.batch_size = of_run.train.micro_batch_size = rows;
    const TokenDataset dataset = TokenDataset::open(of_run.data.path);
    const auto model = load_hugging_face_model(weighted_training_fixtures());
    const EvaluationResult result = Evaluator(*model, of_run, dataset).run();
    EXPECT_NEAR(result.loss, expected_weighted_losses().front(), 1e-4);
    EXPECT_NEAR(result.sources.at(0).loss, result.loss, 1e-12);
    EXPECT_NEAR(result.sources[0].weight, 43.75 + 5 + 1.3 + 67.5, 1e-4);
  }
}

// Where the data is, the recipe knows before it is opened: plans count the weights' bytes.
TEST_F(WeightedTraining, TheRecipeTakesItFromTheData) {
  const std::string text = "model: {from: " + weighted_training_fixtures().string() +
                           "}\ndata: {path: " + (directory_ / "chat").string() + ", sequence_length: 96}\n";
  EXPECT_TRUE(parse_recipe(text, "recipe", {}).data.weighs_targets);
  EXPECT_FALSE(parse_recipe(text, "recipe", {"data.path=nowhere"}).data.weighs_targets);
}

}  // namespace
}  // namespace causeway::train
