// Training on conversations: the loss of what is trained on alone, against PyTorch's.
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

namespace causeway::train {
namespace {

std::filesystem::path chat_training_fixtures() {
  return std::filesystem::path(CAUSEWAY_SOURCE_DIR) / "tests/fixtures/chat";
}

class ChatTraining : public testing::Test {
 protected:
  // The fixture's conversations, packed.
  Recipe recipe(int64_t sequence_length) {
    PrepareOptions options;
    options.inputs = {chat_training_fixtures() / "chats.jsonl"};
    options.output = directory_ / "chat";
    options.overwrite = true;
    options.chat.emplace();
    options.chat->templates = find_chat_templates(chat_training_fixtures().string());
    prepare_dataset(options, formats::JsonTokenizer::load(chat_training_fixtures()));
    Recipe recipe;
    recipe.model = read_hugging_face_config(chat_training_fixtures());
    recipe.data.path = options.output.string();
    recipe.data.sequence_length = sequence_length;
    recipe.data.packing = Packing::kDocuments;
    recipe.optimizer = {.learning_rate = 1e-3,
                        .weight_decay = 0.1,
                        .gradient_clip = 1.0,
                        .own = {{"beta1", 0.9}, {"beta2", 0.95}, {"epsilon", 1e-8}}};
    recipe.train.precision = Precision::kF32;
    return recipe;
  }

  // Each step over all conversations, in so many micro-batches.
  std::vector<double> losses(int64_t sequence_length, int64_t micro_batches) {
    Recipe of_run = recipe(sequence_length);
    const TrainingData data = open_training_data(of_run);
    of_run.train.batch_size = static_cast<int64_t>(data.order.samples_per_epoch());
    EXPECT_EQ(of_run.train.batch_size % micro_batches, 0);
    of_run.train.micro_batch_size = of_run.train.batch_size / micro_batches;
    const auto model = load_hugging_face_model(chat_training_fixtures());
    TrainingStep step(*model, of_run);
    BatchOptions options;
    options.sequence_length = sequence_length;
    options.global_batch_size = of_run.train.batch_size;
    options.micro_batches = micro_batches;
    options.document_numbers = options.ignore_targets_across_documents = true;
    BatchLoader loader(data.dataset, data.order, options);
    std::vector<double> losses;
    for (int64_t i = 0; i < 30; ++i) {
      const Batch& batch = loader.next();
      targets_ = batch.global_valid_targets;
      const TrainingBatch host{batch.inputs, batch.targets, batch.documents, batch.global_valid_targets};
      losses.push_back(step.run(host, i, of_run.optimizer.learning_rate).loss);
    }
    return losses;
  }

  static void expect_fixtures_losses(const std::vector<double>& losses) {
    const auto expected = nlohmann::json::parse(read_text_file(chat_training_fixtures() / "expected.json"));
    const auto want = expected["losses"].get<std::vector<double>>();
    ASSERT_EQ(losses.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(losses[i], want[i], 1e-4) << "step " << i;
    // They fall by far more than that.
    EXPECT_LT(want.back(), want.front() - 1);
  }

  TemporaryDirectory directory_;
  int64_t targets_ = 0;
};

TEST_F(ChatTraining, FollowsPyTorchsLosses) {
  expect_fixtures_losses(losses(128, 1));
  EXPECT_EQ(targets_, 125);
}

// The loss is a mean over the targets of the whole batch, not of the means of its parts.
TEST_F(ChatTraining, FollowsThemHoweverTheBatchIsCut) {
  const std::vector<double> in_parts = losses(100, 1);
  expect_fixtures_losses(in_parts);
  const Recipe of_run = recipe(100);
  const auto samples = static_cast<int64_t>(open_training_data(of_run).order.samples_per_epoch());
  expect_fixtures_losses(losses(100, samples));
}

// Of untrained weights over all conversations, whole: the fixture's first loss.
TEST_F(ChatTraining, IsEvaluatedOverWholeConversations) {
  for (const int64_t rows : {1, 2}) {
    Recipe of_run = recipe(100);
    of_run.train.batch_size = of_run.train.micro_batch_size = rows;
    const TrainingData data = open_training_data(of_run);
    const auto model = load_hugging_face_model(chat_training_fixtures());
    const EvaluationResult result = Evaluator(*model, of_run, data.dataset).run();
    const auto expected = nlohmann::json::parse(read_text_file(chat_training_fixtures() / "expected.json"));
    EXPECT_EQ(result.targets, 125);
    EXPECT_NEAR(result.loss, expected["losses"][0].get<double>(), 1e-4);
    of_run.evaluation.sequences = 1;
    EXPECT_LT(Evaluator(*model, of_run, data.dataset).run().targets, 125) << "one sample of several";
  }
}

TEST_F(ChatTraining, SaysTheShareOfTargets) {
  const TrainingData data = open_training_data(recipe(128));
  const std::vector<std::string> lines = describe_targets(data);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0], fmt::format("data: {:.2f} % of {}'s {} tokens are targets",
                                  100 * 125.0 / static_cast<double>(data.dataset.token_count()),
                                  (directory_ / "chat").string(), data.dataset.token_count()));
}

TEST_F(ChatTraining, RefusesADatasetWithoutATarget) {
  Recipe of_run = recipe(128);
  formats::TokenShardBuilder builder(2, false, true);
  builder.start_document();
  builder.append(std::vector<int32_t>(300, 1), std::vector<uint8_t>(300, 0));
  builder.write(directory_ / "none.tokens", {{"tokenizer.json", "abc", 300, std::nullopt}, {}});
  of_run.data.path = (directory_ / "none.tokens").string();
  of_run.data.packing = Packing::kWindows;
  const Error error = caught([&] { open_training_data(of_run); });
  EXPECT_EQ(error.message(), "the dataset says of none of its tokens that it is trained on");
  EXPECT_EQ(error.where(), of_run.data.path);
}

// A mean over nothing is no loss of 0.
TEST_F(ChatTraining, RefusesAnEvaluationWithoutATarget) {
  Recipe of_run = recipe(100);
  formats::TokenShardBuilder builder(2, false, true);
  builder.start_document();
  std::vector<uint8_t> targets(300, 0);
  targets.back() = 1;
  builder.append(std::vector<int32_t>(300, 1), targets);
  builder.write(directory_ / "last.tokens", {{"tokenizer.json", "abc", 300, std::nullopt}, {}});
  of_run.data.path = (directory_ / "last.tokens").string();
  of_run.data.packing = Packing::kWindows;
  of_run.train.batch_size = of_run.train.micro_batch_size = 2;
  of_run.evaluation.sequences = 2;
  const TrainingData data = open_training_data(of_run);
  const auto model = load_hugging_face_model(chat_training_fixtures());
  const Error error = caught([&] { Evaluator(*model, of_run, data.dataset).run(); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_EQ(error.message(), "none of the 2 validation sequences has a target");
  EXPECT_EQ(error.where(), of_run.data.path);
  EXPECT_TRUE(contains(error.hint(), "Raise evaluation.sequences")) << error.hint();
  of_run.evaluation.sequences = 3;
  const EvaluationResult with_the_last = Evaluator(*model, of_run, data.dataset).run();
  EXPECT_EQ(with_the_last.targets, 1);
  EXPECT_GT(with_the_last.loss, 0);
}

}  // namespace
}  // namespace causeway::train
