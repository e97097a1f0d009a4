#include "causeway/train/training_data.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "causeway/data/prepare.h"
#include "causeway/formats/tokenizer/byte_level_json.h"
#include "causeway/formats/tokenizer/byte_pair_training.h"
#include "causeway/formats/tokenizer/gpt2_tokenizer.h"
#include "causeway/formats/tokenizer/json_tokenizer.h"
#include "causeway/formats/tokenizer/tokenizer.h"
#include "causeway/train/evaluation.h"
#include "causeway/train/model_tokenizer.h"
#include "tests/fixtures/data_test_support.h"

namespace causeway::train {
namespace {

class TrainingDataTest : public testing::Test {
 protected:
  // A dataset of so many bytes of one letter for training and for validation.
  std::string prepared(const std::string& name, char letter, size_t training, size_t validation,
                       bool read_special_tokens = false) {
    data::PrepareOptions options;
    options.inputs = {directory_.write(name + ".txt", std::string(training, letter))};
    if (validation > 0)
      options.validation_inputs = {directory_.write(name + "-v.txt", std::string(validation, letter))};
    options.output = directory_ / name;
    options.allow_shared_documents = true;
    options.read_special_tokens = read_special_tokens;
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

TEST_F(TrainingDataTest, SourcesWithOtherTokensAroundDocumentsAreNamed) {
  const std::string a = prepared("a", 'a', 1000, 0), b = prepared("b", 'b', 101, 0),
                    c = prepared("c", 'c', 101, 0, true);
  EXPECT_EQ(warning_of_documents(open_training_data(recipe({{a, 1}, {b, 1}}))), std::nullopt);
  const std::optional<std::string> warning = warning_of_documents(open_training_data(recipe({{a, 1}, {b, 1}, {c, 1}})));
  ASSERT_TRUE(warning);
  EXPECT_THAT(*warning, testing::HasSubstr(fmt::format("the documents of {} and {} were prepared differently", a, c)));
}

TEST_F(TrainingDataTest, PackedDocumentsSayTheirPadding) {
  const std::string a = prepared("a", 'a', 1000, 100), b = prepared("b", 'b', 8, 50);
  Recipe packed = recipe({{a, 3}, {b, 1}});
  EXPECT_TRUE(describe_packing(open_training_data(recipe({{a, 1}})), packed).empty());
  packed.data.packing = Packing::kDocuments;
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
  const SourceShares shares(std::vector<double>{3, 1});
  const std::vector<uint64_t> there = {100, 3};
  EXPECT_EQ(evaluated_sequences(shares, there, 8), (std::vector<uint64_t>{6, 2}));
  // The second source has 3 sequences.
  EXPECT_EQ(evaluated_sequences(shares, there, 1000), (std::vector<uint64_t>{11, 3}));
  EXPECT_EQ(evaluated_sequences(shares, there, 1), (std::vector<uint64_t>{1, 0}));
}

TEST_F(TrainingDataTest, EpochsAreSteps) {
  const std::string a = prepared("a", 'a', 1011, 0);  // 100 samples
  const auto steps_of = [&](const std::vector<std::string>& overrides) {
    std::vector<std::string> all = {"data.path=" + a, "schedule.warmup_steps=2"};
    all.insert(all.end(), overrides.begin(), overrides.end());
    Recipe recipe = parse_recipe("data: {sequence_length: 10}\ntrain: {batch_size: 8}\n", "test.yaml", all);
    const TrainingData data = open_training_data(recipe);
    resolve_steps(recipe, data);
    EXPECT_EQ(recipe.schedule.total_steps, recipe.train.steps);
    // The resolved recipe says both, and is a recipe.
    EXPECT_EQ(recipe_text(parse_recipe(recipe_text(recipe), "saved.yaml", {})), recipe_text(recipe));
    if (recipe.train.epochs > 0) {
      EXPECT_EQ(describe_sources(data, recipe),
                std::vector<std::string>{fmt::format("data: {} epochs of 100 sequences are {} steps of 8",
                                                     recipe.train.epochs, recipe.train.steps)});
    }
    return recipe.train.steps;
  };
  EXPECT_EQ(steps_of({"train.epochs=2"}), 25);
  EXPECT_EQ(steps_of({"train.epochs=1"}), 13);
  EXPECT_EQ(steps_of({"train.epochs=0.5"}), 7);
  EXPECT_EQ(steps_of({"train.epochs=0.24"}), 3);  // 24 samples, whatever a double makes of it
  EXPECT_EQ(steps_of({"train.epochs=2", "train.steps=25"}), 25);
  EXPECT_EQ(steps_of({"train.steps=7"}), 7);
  const Error other = caught([&] { steps_of({"train.epochs=2", "train.steps=24"}); });
  EXPECT_EQ(other.where(), "train.epochs");
  EXPECT_EQ(other.message(), "2 passes over this data are 25 steps of 8 sequences, and train.steps is 24");
  EXPECT_EQ(other.hint(), "Give train.epochs or train.steps, not both.");
  EXPECT_EQ(caught([&] { steps_of({"train.epochs=0.01"}); }).message(),
            "a warm-up of 2 steps does not fit the run's 1");
}

TEST_F(TrainingDataTest, TheVocabularyIsThatOfTheDatasetsTokenizer) {
  data::PrepareOptions options;
  options.inputs = {directory_.write("words.txt", "some words")};
  options.output = directory_ / "words";
  prepare_dataset(options, formats::Gpt2Tokenizer::load(gpt2_directory()));
  const auto vocabulary_of = [&](const std::vector<std::string>& overrides) {
    return parse_recipe("name: x\n", "test.yaml", overrides).model.vocabulary_size;
  };
  const std::string path = "data.path=" + (directory_ / "words").string();
  EXPECT_EQ(vocabulary_of({path}), 50257);
  EXPECT_EQ(vocabulary_of({path + "/train-00000.tokens"}), 50257);
  EXPECT_EQ(vocabulary_of({"data.sources=[{path: " + (directory_ / "words").string() + "}]"}), 50257);
  EXPECT_EQ(vocabulary_of({path, "model.vocabulary_size=50304"}), 50304);
  // Where there is no data or it does not say.
  EXPECT_EQ(vocabulary_of({}), 256);
  EXPECT_EQ(vocabulary_of({"data.path=" + (directory_ / "nowhere").string()}), 256);
  directory_.write("damaged/dataset.json", "{");
  EXPECT_EQ(vocabulary_of({"data.path=" + (directory_ / "damaged").string()}), 256);
}

TEST_F(TrainingDataTest, TheTokenizerOfTheModelMadeTheData) {
  const auto tokenizer_of = [&](const std::string& name, const std::string& words) {
    const std::string json = formats::byte_pair_tokenizer_json(
        formats::train_byte_pairs({{words.substr(0, 4), 3}, {words.substr(4), 2}}, 259));
    directory_.write(name + "/tokenizer.json", json);
    return formats::load_tokenizer((directory_ / name).string());
  };
  const auto one = tokenizer_of("one", "aabbccdd"), other = tokenizer_of("other", "xxyyzzww");
  ASSERT_EQ(one->vocabulary_size(), other->vocabulary_size());
  const auto dataset_of = [&](const std::string& name, const Tokenizer& tokenizer) {
    data::PrepareOptions options;
    options.inputs = {directory_.write(name + ".txt", "some text")};
    options.output = directory_ / name;
    prepare_dataset(options, tokenizer);
    return TokenDataset::open(options.output);
  };
  const TokenDataset data = dataset_of("data", *one);
  Recipe recipe;
  const auto compared_with = [&](const std::string& directory) {
    recipe.model_from = (directory_ / directory).string();
    return compare_with_tokenizer_of_model(recipe, data);
  };
  EXPECT_EQ(compared_with("one"), "");
  // The same tokenizer in another file.
  nlohmann::json rewritten = nlohmann::json::parse(read_text_file(directory_ / "one/tokenizer.json"));
  if (rewritten.erase("version") == 0) rewritten["version"] = "1.0";
  directory_.write("rewritten/tokenizer.json", rewritten.dump(2));
  ASSERT_NE(formats::load_tokenizer((directory_ / "rewritten").string())->fingerprint(), one->fingerprint());
  EXPECT_EQ(compared_with("rewritten"), "");
  const Error error = caught([&] { compared_with("other"); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_EQ(error.where(), (directory_ / "data").string());
  EXPECT_THAT(error.message(), testing::HasSubstr("the data was made with another tokenizer than that of " +
                                                  recipe.model_from + ": token 25"));
  EXPECT_THAT(error.hint(), testing::HasSubstr("--tokenizer " + recipe.model_from));
  EXPECT_THAT(error.hint(), testing::HasSubstr("data.allow_other_tokenizer=true"));
  recipe.data.allow_other_tokenizer = true;
  EXPECT_THAT(compared_with("other"), testing::HasSubstr("data.allow_other_tokenizer allows it"));
  recipe.data.allow_other_tokenizer = false;
  // What cannot be compared is said.
  std::filesystem::create_directory(directory_ / "none");
  EXPECT_THAT(compared_with("none"), testing::HasSubstr("cannot be told: "));
  directory_.write("ids.bin", std::string(100, '\1'));
  EXPECT_THAT(compare_with_tokenizer_of_model(
                  recipe, TokenDataset::open(directory_ / "ids.bin", data::kTrainSplit, {.token_bytes = 2})),
              testing::HasSubstr("ids.bin does not say which tokenizer made its tokens"));
}

TEST(TokenizerDifference, KindsOfFilesAreNone) {
  const ByteTokenizer bytes;
  const formats::Gpt2Tokenizer gpt2 = formats::Gpt2Tokenizer::load(gpt2_directory());
  EXPECT_EQ(tokenizer_difference(gpt2, gpt2), "");
  EXPECT_EQ(tokenizer_difference(bytes, bytes), "");
  EXPECT_THAT(tokenizer_difference(bytes, gpt2), testing::HasSubstr("token "));
}

}  // namespace
}  // namespace causeway::train
