#include "causeway/data/tokenizer_training.h"

#include <nlohmann/json.hpp>

#include "causeway/formats/tokenizer/byte_pair_training.h"
#include "causeway/formats/tokenizer/json_tokenizer.h"
#include "tests/fixtures/data_test_support.h"

namespace causeway::data {
namespace {

using formats::JsonTokenizer;
using formats::TrainedBytePairs;

TEST(BytePairTraining, MergesTheMostFrequentPairAndThenTheLowestIds) {
  const TrainedBytePairs trained = formats::train_byte_pairs({{"abab", 2}, {"cd", 5}, {"abc", 1}, {"x", 99}}, 300);
  // ab and cd occur 5 times each; a is the lower id. Then abab twice; the rest once.
  EXPECT_EQ(trained.merges, (std::vector<std::pair<int32_t, int32_t>>{{'a', 'b'}, {'c', 'd'}, {256, 256}}));
  EXPECT_EQ(trained.tokens.size(), 259u);
  EXPECT_EQ(trained.tokens[258], "abab");
}

TEST(BytePairTraining, CountsRunsOfOneCharacterAsTheyMerge) {
  const TrainedBytePairs trained = formats::train_byte_pairs({{"aaaa", 1}, {"aaaaa", 1}}, 258);
  EXPECT_EQ(trained.tokens[256], "aa");
  EXPECT_EQ(trained.tokens[257], "aaaa");
}

std::string sample() {
  std::string text;
  for (int i = 0; i < 3000; ++i) text += fmt::format("the {} quick{} brown foxes, {}\n", i % 17, i % 5, i * i % 101);
  return text;
}

TEST(TokenizerTraining, ThreadsAndFilesGiveTheSameTokenizer) {
  const TemporaryDirectory directory;
  const std::string text = sample();
  directory.write("all.txt", text);
  TokenizerTrainingOptions options;
  options.inputs = {directory / "all.txt"};
  options.vocabulary = 320;
  options.threads = 1;
  options.output = directory / "one";
  const TokenizerTrainingSummary summary = train_tokenizer(options);
  EXPECT_EQ(summary.vocabulary, 320);
  EXPECT_EQ(summary.text_bytes, text.size());
  options.threads = 4;
  options.output = directory / "four";
  train_tokenizer(options);
  const std::string json = read_text_file(directory / "one/tokenizer.json");
  EXPECT_EQ(json, read_text_file(directory / "four/tokenizer.json"));
  const JsonTokenizer tokenizer = JsonTokenizer::load(directory / "one");
  EXPECT_EQ(tokenizer.vocabulary_size(), 320);
  EXPECT_EQ(tokenizer.end_of_text(), 319);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  EXPECT_LT(tokenizer.encode(text).size(), text.size() / 3);
}

TEST(TokenizerTraining, SaysWhatItCannotDo) {
  const TemporaryDirectory directory;
  directory.write("small.txt", "ab ab cd");
  TokenizerTrainingOptions options;
  options.inputs = {directory / "small.txt"};
  options.output = directory / "out";
  options.vocabulary = 5;
  EXPECT_EQ(caught([&] { train_tokenizer(options); }).message(),
            "a vocabulary of 5 tokens; it may have 257 to 1048576");
  options.vocabulary = 1000;
  EXPECT_EQ(caught([&] { train_tokenizer(options); }).message(),
            "the text makes 258 tokens, not 1000: no further pair occurs twice");
  options.vocabulary = 258;
  train_tokenizer(options);
  EXPECT_EQ(caught([&] { train_tokenizer(options); }).message(), "there is a tokenizer already");
  options.overwrite = true;
  EXPECT_EQ(train_tokenizer(options).different_words, 3u);
}

}  // namespace
}  // namespace causeway::data
