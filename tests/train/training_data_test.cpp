#include "causeway/train/training_data.h"

#include "causeway/data/prepare.h"
#include "causeway/formats/tokenizer/tokenizer.h"
#include "causeway/train/evaluation.h"
#include "tests/fixtures/data_test_support.h"

namespace causeway::train {
namespace {

class TrainingDataTest : public testing::Test {
 protected:
  // A dataset of so many bytes of one letter for training and for validation.
  std::string prepared(const std::string& name, char letter, size_t training, size_t validation) {
    data::PrepareOptions options;
    options.inputs = {directory_.write(name + ".txt", std::string(training, letter))};
    if (validation > 0)
      options.validation_inputs = {directory_.write(name + "-v.txt", std::string(validation, letter))};
    options.output = directory_ / name;
    options.allow_shared_documents = true;
    prepare_dataset(options, ByteTokenizer());
    return options.output.string();
  }
  static Recipe recipe(const std::vector<DataSource>& sources) {
    return parse_recipe("data: {sequence_length: 10}\ntrain: {steps: 30, batch_size: 4}\n", "test.yaml",
                        {"data.sources=" + print_data_sources(sources)});
  }

  TemporaryDirectory directory_;
};

TEST_F(TrainingDataTest, SourcesAreReadByTheirWeightsAndSayIt) {
  const std::string a = prepared("a", 'a', 1000, 100), b = prepared("b", 'b', 101, 50);
  const Recipe of_two = recipe({{a, 3}, {b, 1}});
  const TrainingData data = open_training_data(of_two);
  ASSERT_TRUE(data.validation);
  EXPECT_EQ(data.validation->sources().size(), 2u);
  EXPECT_EQ(data.validation->token_count(), 150u);
  EXPECT_EQ(describe_sources(data, of_two),
            (std::vector<std::string>{fmt::format("data: 75.00 % of {}, 1000 tokens: 0.92 epochs in 30 steps", a),
                                      fmt::format("data: 25.00 % of {}, 101 tokens: 3.00 epochs in 30 steps", b)}));
  EXPECT_EQ(source_epochs(data, 80).at(1), (std::pair<std::string, double>{b, 2}));
}

TEST_F(TrainingDataTest, PackedDocumentsSayTheirPadding) {
  const std::string a = prepared("a", 'a', 1000, 100), b = prepared("b", 'b', 8, 50);
  Recipe packed = recipe({{a, 3}, {b, 1}});
  EXPECT_TRUE(describe_packing(open_training_data(recipe({{a, 1}})), packed).empty());
  packed.data.packing = "documents";
  const TrainingData data = open_training_data(packed);
  EXPECT_EQ(
      describe_packing(data, packed),
      (std::vector<std::string>{
          fmt::format("data: 1 documents of {} in 100 samples of 10 tokens: 0.10 % padding, 1 documents cut", a),
          fmt::format("data: 1 documents of {} in 1 samples of 10 tokens: 30.00 % padding, 0 documents cut", b)}));
}

TEST_F(TrainingDataTest, OnePathIsOneSource) {
  const std::string a = prepared("a", 'a', 1000, 100);
  Recipe by_path = recipe({});
  by_path.data.path = a;
  const Recipe as_source = recipe({{a, 0.5}});
  const TrainingData path = open_training_data(by_path), source = open_training_data(as_source);
  EXPECT_EQ(path.dataset.fingerprint(), source.dataset.fingerprint());
  for (uint64_t sample = 0; sample < 300; ++sample)
    ASSERT_EQ(path.order.windows(sample).at(0).offset, source.order.windows(sample).at(0).offset);
  EXPECT_TRUE(describe_sources(path, by_path).empty());
  EXPECT_TRUE(source_epochs(path, 10).empty());
}

TEST_F(TrainingDataTest, AllSourcesHaveAHeldOutPartOrNone) {
  const std::string a = prepared("a", 'a', 1000, 100), b = prepared("b", 'b', 100, 0), c = prepared("c", 'c', 99, 0);
  const Error error = caught([&] { open_training_data(recipe({{a, 3}, {b, 1}})); });
  EXPECT_TRUE(contains(error.message(), "the source has no held-out part, and " + a + " has one")) << error.message();
  EXPECT_EQ(error.where(), b);
  EXPECT_TRUE(contains(error.hint(), "--validation-fraction"));
  EXPECT_FALSE(open_training_data(recipe({{b, 3}, {c, 1}})).validation);
  EXPECT_EQ(caught([&] { open_training_data(recipe({{a, 1}, {(directory_ / "d").string(), 1}})); }).where(),
            (directory_ / "d").string());
}

// What is named is what the caller wants to train on.
TEST_F(TrainingDataTest, NamedFilesHoldNothingOut) {
  for (const char* name : {"train_1.bin", "train_2.bin"}) directory_.write(name, std::string(100, 'a'));
  for (const char* path : {"train_1.bin", "train_*.bin"}) {
    Recipe of_file = recipe({});
    of_file.data.path = (directory_ / path).string();
    of_file.data.token_bytes = 1;
    EXPECT_FALSE(open_training_data(of_file).validation) << path;
  }
}

TEST_F(TrainingDataTest, EvaluationKeepsTheWeights) {
  const std::string a = prepared("a", 'a', 1000, 1001), b = prepared("b", 'b', 100, 31);
  const TokenDataset validation = *open_training_data(recipe({{a, 3}, {b, 1}})).validation;
  const SourceShares shares(std::vector<double>{3, 1});
  EXPECT_EQ(evaluated_sequences(shares, validation, 10, 8), (std::vector<uint64_t>{6, 2}));
  // The second source has 3 windows of 10 targets.
  EXPECT_EQ(evaluated_sequences(shares, validation, 10, 1000), (std::vector<uint64_t>{11, 3}));
  EXPECT_EQ(evaluated_sequences(shares, validation, 10, 1), (std::vector<uint64_t>{1, 0}));
}

}  // namespace
}  // namespace causeway::train
