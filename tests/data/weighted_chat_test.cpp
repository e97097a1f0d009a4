// Turns that weigh something else than 1: in shards, in batches, and in what is shown of them.
#include <nlohmann/json.hpp>
#include <numeric>

#include "causeway/data/batch_loader.h"
#include "causeway/data/inspect.h"
#include "causeway/data/prepare.h"
#include "causeway/formats/tokenizer/json_tokenizer.h"
#include "tests/fixtures/data_test_support.h"

namespace causeway::data {
namespace {

std::filesystem::path weighted_fixtures() { return std::filesystem::path(CAUSEWAY_SOURCE_DIR) / "tests/fixtures/chat"; }

using TokenWeights = std::vector<float>;

class WeightedChat : public testing::Test {
 protected:
  // Of the fixture, or of lines of a prompt and a completion as messages.
  PrepareOptions options(const std::filesystem::path& input) const {
    PrepareOptions options;
    options.inputs = {input};
    options.output = directory_ / "out";
    options.overwrite = true;
    options.chat.emplace();
    options.chat->templates = find_chat_templates(weighted_fixtures().string());
    return options;
  }
  PrepareSummary prepare(const std::string& lines) {
    return prepare_dataset(options(directory_.write("chats.jsonl", lines)), tokenizer_);
  }
  static std::string line(const std::string& answer, const std::string& weight) {
    return R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": ")" + answer +
           R"(", "weight": )" + weight + "}]}\n";
  }
  TokenDataset out() const { return TokenDataset::open(directory_ / "out"); }

  TemporaryDirectory directory_;
  formats::JsonTokenizer tokenizer_ = formats::JsonTokenizer::load(weighted_fixtures());
};

// tools/make_weighted_chat_fixtures.py has ids and weights of transformers, of a file that is one list.
TEST_F(WeightedChat, EqualsTransformersTokenByToken) {
  const auto expected = nlohmann::json::parse(read_text_file(weighted_fixtures() / "weighted_expected.json"));
  for (const uint64_t tokens_per_shard : {100'000'000, 40}) {
    PrepareOptions all = options(weighted_fixtures() / "weighted.json");
    all.tokens_per_shard = tokens_per_shard;
    const PrepareSummary summary = prepare_dataset(all, tokenizer_);
    EXPECT_EQ(summary.manifest.targets->weights, (TokenWeights{0.1f, 0.25f, 2, 7.5f}));
    const TokenDataset dataset = out();
    EXPECT_TRUE(dataset.has_target_weights());
    EXPECT_EQ(dataset.shards().size() > 1, tokens_per_shard == 40);
    size_t sample = 0;
    uint64_t targets = 0;
    dataset.visit_documents(dataset.sources().front(), [&](uint64_t offset, uint64_t tokens) {
      const nlohmann::json& want = expected["samples"][sample];
      std::vector<int32_t> ids(tokens);
      TokenWeights weights(tokens);
      std::vector<uint8_t> are_targets(tokens);
      dataset.read(offset, ids);
      dataset.read_target_weights(offset, weights);
      dataset.read_targets(offset, are_targets);
      EXPECT_EQ(ids, want["ids"].get<std::vector<int32_t>>()) << sample;
      EXPECT_EQ(weights, want["weights"].get<TokenWeights>()) << sample;
      for (size_t i = 0; i < tokens; ++i) EXPECT_EQ(are_targets[i], weights[i] > 0 ? 1 : 0);
      targets += static_cast<uint64_t>(std::ranges::count(are_targets, uint8_t{1}));
      ++sample;
    });
    EXPECT_EQ(sample, 4u);
    EXPECT_EQ(summary.manifest.splits.at("train").targets, targets);
    EXPECT_EQ(dataset.count_targets(dataset.sources().front()), targets);
  }
}

// A dataset without other weights is what it was, to the byte; one with them has a version that says so.
TEST_F(WeightedChat, HasAFormatOfItsOwn) {
  prepare(line("a", "1") + line("b", "0.5"));
  const auto manifest = nlohmann::json::parse(read_text_file(directory_ / "out/dataset.json"));
  EXPECT_EQ(manifest["version"], 3);
  EXPECT_EQ(manifest["targets"]["weights"], nlohmann::json({0.5}));
  EXPECT_EQ(read_text_file(directory_ / "out/train-00000.tokens")[8], 3);
  const std::string half = out().fingerprint();
  // The same bytes say something else by other weights.
  prepare(line("a", "1") + line("b", "0.25"));
  EXPECT_NE(out().fingerprint(), half);
  std::filesystem::copy(directory_ / "out/train-00000.tokens", directory_ / "quarter.tokens");
  prepare(line("a", "1") + line("b", "0.5"));
  std::filesystem::copy(directory_ / "quarter.tokens", directory_ / "out/train-00000.tokens",
                        std::filesystem::copy_options::overwrite_existing);
  EXPECT_TRUE(contains(caught([&] { out(); }).message(), "the shard is not the one that dataset.json describes"));
  prepare(line("a", "1") + line("b", "1"));
  EXPECT_EQ(nlohmann::json::parse(read_text_file(directory_ / "out/dataset.json"))["version"], 2);
  EXPECT_EQ(read_text_file(directory_ / "out/train-00000.tokens")[8], 2);
  EXPECT_FALSE(out().has_target_weights());
}

TEST_F(WeightedChat, MoreThanAByteTellsApartIsRefused) {
  std::string lines;
  for (int i = 1; i <= 254; ++i) lines += line("a", std::to_string(i + 1));
  prepare(lines);
  EXPECT_EQ(out().shards().front().metadata()->target_weights.size(), 256u);
  lines += line("a", "0.5");
  const Error error = caught([&] { prepare(lines); });
  EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
  EXPECT_EQ(error.message(), "the conversations have more than 255 different weights of turns");
}

TEST_F(WeightedChat, PairsHaveNone) {
  const auto pair = [&](const std::string& weight) {
    return R"({"prompt": [{"role": "user", "content": "q"}],
               "chosen": [{"role": "assistant", "content": "good", "weight": )" +
           weight + R"(}], "rejected": [{"role": "assistant", "content": "bad"}]})";
  };
  const auto one_line = [](std::string text) {
    std::erase(text, '\n');
    return text + "\n";
  };
  EXPECT_NO_THROW(prepare(one_line(pair("1"))));
  const Error error = caught([&] { prepare(one_line(pair("0.5"))); });
  EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
  EXPECT_EQ(error.message(), "\"chosen\": has a turn of another weight than 0 and 1");
}

TEST_F(WeightedChat, IsShown) {
  prepare(line("yes", "0.5"));
  const std::vector<TextSample> samples = sample_texts(out(), tokenizer_, 1, 64);
  ASSERT_EQ(samples.at(0).pieces.size(), 2u);
  EXPECT_TRUE(samples[0].pieces[1].is_target);
  EXPECT_EQ(samples[0].pieces[1].weight, 0.5f);
  EXPECT_TRUE(contains(samples[0].pieces[1].text, "yes"));
}

// Whoever reads which rows divides by the same bits.
TEST_F(WeightedChat, BatchesHaveTheirWeights) {
  prepare_dataset(options(weighted_fixtures() / "weighted.json"), tokenizer_);
  const TokenDataset dataset = out();
  const DocumentPacking packing(dataset, 0, 100);
  BatchOptions batches;
  batches.sequence_length = 100;
  batches.global_batch_size = 4;
  batches.ignore_targets_across_documents = batches.document_numbers = true;
  BatchLoader whole(dataset, packing, packing.sample_count(), batches);
  const Batch& all = whole.next();
  double sum = 0;
  for (size_t i = 0; i < all.targets.size(); ++i) {
    EXPECT_EQ(all.targets[i] >= 0, all.target_weights[i] > 0) << i;
    sum += static_cast<double>(all.target_weights[i]);
  }
  // What the fixture's generator divides by.
  EXPECT_NEAR(all.global_target_weight, 43.75 + 5 + 1.3 + 67.5, 1e-5);
  EXPECT_NEAR(sum, all.global_target_weight, 1e-9);
  TokenWeights joined;
  for (const int64_t row : {0, 2}) {
    batches.first_row = row;
    batches.rows = 2;
    BatchLoader part(dataset, packing, packing.sample_count(), batches);
    const Batch& own = part.next();
    EXPECT_EQ(own.global_target_weight, all.global_target_weight);
    EXPECT_EQ(own.global_valid_targets, all.global_valid_targets);
    joined.insert(joined.end(), own.target_weights.begin(), own.target_weights.end());
  }
  EXPECT_EQ(joined, all.target_weights);
}

}  // namespace
}  // namespace causeway::data
