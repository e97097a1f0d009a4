// Preference pairs as a dataset: ids and targets of both sides, what is refused, and the order in which they are read.
#include <nlohmann/json.hpp>
#include <set>

#include "causeway/data/batch_loader.h"
#include "causeway/data/inspect.h"
#include "causeway/data/preference_record.h"
#include "causeway/data/prepare.h"
#include "causeway/formats/tokenizer/json_tokenizer.h"
#include "tests/fixtures/data_test_support.h"

namespace causeway::data {
namespace {

std::filesystem::path preference_fixtures() {
  return std::filesystem::path(CAUSEWAY_SOURCE_DIR) / "tests/fixtures/preference";
}

std::filesystem::path tokenizer_of_pairs() {
  return std::filesystem::path(CAUSEWAY_SOURCE_DIR) / "tests/fixtures/chat";
}

class PreferenceDataset : public testing::Test {
 protected:
  PrepareOptions options(const std::filesystem::path& input) {
    PrepareOptions options;
    options.inputs = {input};
    options.output = directory_ / "pairs";
    options.overwrite = true;
    options.chat.emplace();
    options.chat->templates = find_chat_templates(tokenizer_of_pairs().string());
    return options;
  }
  PrepareOptions options_of(const std::string& lines) { return options(directory_.write("pairs.jsonl", lines)); }
  static PrepareSummary prepare(const PrepareOptions& options) {
    return prepare_dataset(options, formats::JsonTokenizer::load(tokenizer_of_pairs()));
  }
  // Pairs of texts of bytes, with completions of so many.
  static std::string lines_of_lengths(const std::vector<std::pair<int, int>>& lengths) {
    std::string lines;
    for (size_t i = 0; i < lengths.size(); ++i)
      lines += fmt::format("{{\"prompt\": \"{}:\", \"chosen\": \"{}\", \"rejected\": \"{}\"}}\n", i,
                           std::string(static_cast<size_t>(lengths[i].first), 'c'),
                           std::string(static_cast<size_t>(lengths[i].second), 'r'));
    return lines;
  }

  TemporaryDirectory directory_;
};

TEST_F(PreferenceDataset, HasTheIdsAndTargetsOfTrl) {
  const auto expected = nlohmann::json::parse(read_text_file(preference_fixtures() / "expected.json"));
  for (const auto& [file, key] : {std::pair{"pairs.jsonl", "pairs"}, {"texts.jsonl", "texts"}}) {
    const PrepareSummary summary = prepare(options(preference_fixtures() / file));
    EXPECT_TRUE(summary.manifest.holds_pairs);
    EXPECT_EQ(summary.chat.preferences, expected[key].size());
    const TokenDataset dataset = TokenDataset::open(directory_ / "pairs");
    EXPECT_TRUE(dataset.holds_pairs());
    size_t number = 0;
    dataset.visit_documents(dataset.sources().front(), [&](uint64_t offset, uint64_t tokens) {
      std::vector<int32_t> ids(tokens);
      std::vector<uint8_t> targets(tokens);
      dataset.read(offset, ids);
      dataset.read_targets(offset, targets);
      const nlohmann::json& side = expected[key][number / 2][number % 2 == 0 ? "chosen" : "rejected"];
      EXPECT_EQ(ids, side["ids"].get<std::vector<int32_t>>()) << file << " " << number;
      EXPECT_EQ(targets, side["targets"].get<std::vector<uint8_t>>()) << file << " " << number;
      ++number;
    });
    EXPECT_EQ(number, 2 * expected[key].size());
  }
}

// A shard that is named alone says so, too.
TEST_F(PreferenceDataset, IsToldFromConversations) {
  prepare(options(preference_fixtures() / "texts.jsonl"));
  EXPECT_TRUE(TokenDataset::open(directory_ / "pairs" / "train-00000.tokens").holds_pairs());
  const DatasetInspection inspection = inspect_dataset(directory_ / "pairs");
  EXPECT_TRUE(inspection.holds_pairs);
  const TokenDataset dataset = TokenDataset::open(directory_ / "pairs");
  const std::vector<TextSample> shown = sample_texts(dataset, *dataset.load_tokenizer(), 1, 10);
  ASSERT_EQ(shown.size(), 2u);
  EXPECT_EQ(shown[0].side, "chosen");
  EXPECT_EQ(shown[0].pieces.at(1).text, " Paris.<|endoftext|>");
  EXPECT_EQ(shown[1].side, "rejected");
  EXPECT_EQ(shown[1].pieces.at(0).text, "The capital of France is");
}

TEST_F(PreferenceDataset, BadPairsAreNamed) {
  const auto message = [&](const std::string& line) {
    const Error error =
        caught([&] { prepare(options_of("{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"c\"}\n" + line)); });
    EXPECT_EQ(error.where(), (directory_ / "pairs.jsonl").string() + ", line 2") << line;
    return error.message();
  };
  EXPECT_EQ(message(R"({"prompt": "a", "chosen": "b"})"),
            "the preference pair has no \"rejected\"; its fields are \"prompt\", \"chosen\"");
  EXPECT_EQ(message(R"({"prompt": "a", "chosen": null, "rejected": "b"})"),
            "the preference pair has no \"chosen\"; its fields are \"prompt\", \"chosen\", \"rejected\"");
  EXPECT_EQ(message(R"({"prompt": "a", "chosen": "b", "rejected": "b"})"), "\"chosen\" and \"rejected\" are the same");
  EXPECT_EQ(message(R"({"prompt": "a", "chosen": "b", "rejected": " "})"), "\"rejected\" is empty");
}

TEST_F(PreferenceDataset, WhichPromptIsMeant) {
  const auto read = [](const char* text) {
    return read_preference_record(nlohmann::ordered_json::parse(text), "here");
  };
  const auto message = [&](const char* text) { return caught([&] { read(text); }).message(); };
  EXPECT_EQ(read(R"({"chosen": "Q: yes or no? yes", "rejected": "Q: yes or no? nay"})").chosen["prompt"],
            "Q: yes or no?");
  EXPECT_EQ(read(R"({"chosen": "Q: yes or no? yes", "rejected": "Q: yes or no? nay"})").rejected["completion"], " nay");
  EXPECT_EQ(message(R"({"chosen": "yes", "rejected": "no"})"),
            "the pair has no \"prompt\", and \"chosen\" and \"rejected\" begin differently");
  EXPECT_EQ(message(R"({"question": "?", "chosen": "no", "rejected": "nay"})"),
            "the pair has no \"prompt\", and \"question\" stands beside it");
  EXPECT_EQ(
      message(R"({"prompt": "z", "chosen": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}],
                        "rejected": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "z"}]})"),
      "\"prompt\" is not the last message that \"chosen\" and \"rejected\" both begin with");
  // A prompt that is written twice.
  EXPECT_EQ(message(R"({"prompt": [{"role": "user", "content": "x"}],
                        "chosen": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}],
                        "rejected": [{"role": "assistant", "content": "z"}]})"),
            "\"chosen\" begins with the messages of \"prompt\", and \"rejected\" does not");
  EXPECT_EQ(message(R"({"prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "x"}],
                        "chosen": [{"role": "assistant", "content": "y"}],
                        "rejected": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "z"}]})"),
            "\"rejected\" begins with the last message of \"prompt\", and not with all of it");
  EXPECT_EQ(message(R"({"chosen": [{"role": "user", "content": "x"}], "rejected": "y"})"),
            "\"chosen\" is a JSON array and \"rejected\" a JSON string");
  EXPECT_EQ(message(R"({"chosen": [{"role": "user", "content": "x"}],
                        "rejected": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "z"}]})"),
            "\"chosen\" is empty behind the prompt");
}

TEST_F(PreferenceDataset, IsOfPairsOrOfConversations) {
  const std::string pair = "{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"c\"}\n";
  const std::string conversation = "{\"prompt\": \"a\", \"completion\": \"b\"}\n";
  const Error first = caught([&] { prepare(options_of(pair + pair + conversation)); });
  EXPECT_EQ(first.message(), "the record is a conversation, and those before it are preference pairs");
  EXPECT_EQ(first.where(), (directory_ / "pairs.jsonl").string() + ", line 3");
  EXPECT_EQ(caught([&] { prepare(options_of(conversation + pair)); }).message(),
            "the record is a preference pair, and those before it are conversations");
  prepare(options_of(conversation));
  std::filesystem::rename(directory_ / "pairs", directory_ / "chats");
  prepare(options_of(pair));
  std::vector<TokenDataset> both;
  both.push_back(TokenDataset::open(directory_ / "chats"));
  both.push_back(TokenDataset::open(directory_ / "pairs"));
  EXPECT_TRUE(contains(caught([&] { TokenDataset::join(std::move(both)); }).message(), "of preference pairs"));
}

TEST_F(PreferenceDataset, IsCutAndLeftOutByPairs) {
  PrepareOptions cut = options_of(lines_of_lengths({{3, 9}, {2, 2}}));
  cut.chat->max_length = 5;
  const PrepareSummary summary = prepare_dataset(cut, ByteTokenizer());
  EXPECT_EQ(summary.chat.truncated, 1u);
  EXPECT_EQ(summary.chat.truncated_tokens, 6u);
  EXPECT_EQ(summary.manifest.splits.at("train").documents, 4u);
  cut.inputs = {directory_.write("same.jsonl", "{\"prompt\": \"abc\", \"chosen\": \"deX\", \"rejected\": \"deY\"}\n" +
                                                   lines_of_lengths({{1, 1}}))};
  EXPECT_TRUE(contains(caught([&] { prepare_dataset(cut, ByteTokenizer()); }).message(),
                       "\"chosen\" and \"rejected\" are the same tokens once they are cut: abcdeX"));
  cut.chat->skip_without_target = true;
  const PrepareSummary left = prepare_dataset(cut, ByteTokenizer());
  EXPECT_EQ(left.chat.without_target, 1u);
  EXPECT_EQ(left.chat.preferences, 1u);
  EXPECT_EQ(left.manifest.splits.at("train").documents, 2u);
}

// Both sides, and all pairs of one prompt, are on one side of the split.
TEST_F(PreferenceDataset, IsHeldOutByPrompts) {
  std::string lines;
  for (int i = 0; i < 40; ++i)
    for (const char* chosen : {"yes", "nope", "now"})  // two begin as the rejected one does
      lines += fmt::format("{{\"prompt\": \"question {}:\", \"chosen\": \"{}\", \"rejected\": \"no\"}}\n", i, chosen);
  PrepareOptions held_out = options_of(lines);
  held_out.validation_fraction = 0.3;
  const PrepareSummary summary = prepare_dataset(held_out, ByteTokenizer());
  for (const char* split : {"train", "validation"}) {
    EXPECT_GT(summary.manifest.splits.at(split).documents, 0u);
    EXPECT_EQ(summary.manifest.splits.at(split).documents % 6, 0u) << split;
  }
}

TEST_F(PreferenceDataset, StandsInNeighbouringRowsOfOneReader) {
  prepare_dataset(options_of(lines_of_lengths({{3, 4}, {5, 6}, {1, 2}, {2, 7}, {4, 1}})), ByteTokenizer());
  const TokenDataset dataset = TokenDataset::open(directory_ / "pairs");
  const MixtureOrder order(dataset, std::vector<double>{1}, 12, 3);
  EXPECT_EQ(order.samples_per_epoch(), 10u);
  BatchOptions options;
  options.sequence_length = 12;
  options.global_batch_size = 8;
  options.micro_batches = 2;
  BatchLoader whole(dataset, order, options);
  std::vector<Batch> parts;
  std::set<uint64_t> seen;
  for (int64_t first : {0, 2}) {
    options.first_row = first;
    options.rows = 2;
    parts.push_back(BatchLoader(dataset, order, options).next());
  }
  const Batch& batch = whole.next();
  for (size_t row = 0; row < 8; ++row) {
    const bool is_chosen = row % 2 == 0;
    int32_t last = 0;
    for (size_t i = 0; i < 12; ++i) {
      const int32_t target = batch.targets[row * 12 + i];
      if (target == kIgnoredTarget) continue;
      last = target;
    }
    EXPECT_EQ(last, is_chosen ? 'c' : 'r') << "row " << row;
    EXPECT_EQ(batch.inputs[row * 12], batch.inputs[(row - row % 2) * 12]) << "one prompt";
    if (is_chosen) seen.insert(batch.first_tokens[row]);
    const Batch& part = parts[row % 4 / 2];
    const size_t place = row / 4 * 2 + row % 2;
    EXPECT_EQ(part.first_tokens[place], batch.first_tokens[row]);
    EXPECT_EQ(part.global_chosen_targets, batch.global_chosen_targets);
    EXPECT_TRUE(std::equal(part.inputs.begin() + static_cast<ptrdiff_t>(place * 12),
                           part.inputs.begin() + static_cast<ptrdiff_t>(place * 12 + 12),
                           batch.inputs.begin() + static_cast<ptrdiff_t>(row * 12)));
  }
  EXPECT_EQ(seen.size(), 4u) << "four pairs";
  EXPECT_LT(batch.global_chosen_targets, batch.global_valid_targets);
}

TEST_F(PreferenceDataset, LongerPairsThanASequenceAreCounted) {
  prepare_dataset(options_of(lines_of_lengths({{3, 4}, {5, 9}, {8, 2}})), ByteTokenizer());
  const TokenDataset dataset = TokenDataset::open(directory_ / "pairs");
  EXPECT_EQ(DocumentPairs(dataset, 0, 10).count(), 3u);
  const Error error = caught([&] { DocumentPairs(dataset, 0, 8); });
  EXPECT_EQ(error.message(), "2 of 6 completions with their prompts have more than 9 tokens, the longest 11");
  EXPECT_EQ(error.where(), (directory_ / "pairs").string());
  EXPECT_TRUE(contains(error.hint(), "--max-length 9")) << error.hint();
  EXPECT_TRUE(contains(error.hint(), "data.sequence_length=10")) << error.hint();
}

}  // namespace
}  // namespace causeway::data
