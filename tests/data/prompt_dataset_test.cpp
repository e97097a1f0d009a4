// Prompts to be answered as a dataset: their ids, the records behind them, what is refused, and their order.
#include <nlohmann/json.hpp>
#include <set>

#include "causeway/data/document_prompts.h"
#include "causeway/data/inspect.h"
#include "causeway/data/mixture_order.h"
#include "causeway/data/prepare.h"
#include "causeway/formats/tokenizer/json_tokenizer.h"
#include "tests/fixtures/data_test_support.h"

namespace causeway::data {
namespace {

std::filesystem::path tokenizer_of_prompts() {
  return std::filesystem::path(CAUSEWAY_SOURCE_DIR) / "tests/fixtures/chat";
}

class PromptDataset : public testing::Test {
 protected:
  PrepareOptions options_of(const std::string& lines) {
    PrepareOptions options;
    options.inputs = {directory_.write("prompts.jsonl", lines)};
    options.output = directory_ / "prompts";
    options.overwrite = true;
    options.chat.emplace();
    options.chat->prompts = true;
    options.chat->templates = find_chat_templates(tokenizer_of_prompts().string());
    return options;
  }
  PrepareSummary prepare(const std::string& lines) { return prepare_dataset(options_of(lines), tokenizer_); }
  Error refusal(const std::string& lines) {
    return caught([&] { prepare(lines); });
  }
  std::vector<int32_t> tokens_of(const TokenDataset& dataset, const SampleWindow& window) const {
    std::vector<int32_t> ids(window.length);
    dataset.read(window.offset, ids);
    return ids;
  }

  TemporaryDirectory directory_;
  const formats::JsonTokenizer tokenizer_ = formats::JsonTokenizer::load(tokenizer_of_prompts());
};

// A text as it is; messages as the template asks for an answer. Behind each its whole record.
TEST_F(PromptDataset, HoldsPromptsAndTheirRecords) {
  const std::string text = R"({"prompt": "2 + 2 =", "answer": "4", "level": {"of": [1, 2.5]}})",
                    chat = R"({"prompt": [{"role": "user", "content": "Hé \"there\""}], "answer": 7})";
  const PrepareSummary summary = prepare(text + "\n" + chat + "\n");
  EXPECT_TRUE(summary.manifest.holds_prompts);
  EXPECT_FALSE(summary.manifest.holds_pairs);
  EXPECT_EQ(summary.manifest.targets->rule, "prompts");
  EXPECT_EQ(summary.chat.rendered, 1u);
  EXPECT_EQ(summary.chat.pairs, 1u);
  const TokenDataset dataset = TokenDataset::open(directory_ / "prompts");
  EXPECT_TRUE(dataset.holds_prompts());
  EXPECT_TRUE(TokenDataset::open(directory_ / "prompts" / "train-00000.tokens").holds_prompts());
  EXPECT_TRUE(inspect_dataset(directory_ / "prompts").holds_prompts);
  const DocumentPrompts prompts(dataset, 0, 100);
  ASSERT_EQ(prompts.count(), 2u);
  EXPECT_EQ(tokens_of(dataset, prompts.window(0)), tokenizer_.encode("2 + 2 ="));
  EXPECT_EQ(tokens_of(dataset, prompts.window(1)),
            tokenizer_.encode("<|im_start|>user\nHé \"there\"<|im_end|>\n<|im_start|>assistant\n",
                              {.read_special_tokens = true}));
  EXPECT_EQ(prompts.record(dataset, tokenizer_, 0), nlohmann::ordered_json::parse(text));
  EXPECT_EQ(prompts.record(dataset, tokenizer_, 1), nlohmann::ordered_json::parse(chat));
  EXPECT_EQ(prompts.number_at(prompts.window(1).offset), 1u);
  EXPECT_EQ(prompts.number_at(prompts.window(1).offset + 1), std::nullopt);
  EXPECT_EQ(prompts.name(1), fmt::format("prompt 2 of {}", (directory_ / "prompts").string()));
  const std::vector<TextSample> samples = sample_texts(dataset, tokenizer_, 2, 10);
  ASSERT_EQ(samples[0].pieces.size(), 2u);
  EXPECT_EQ(samples[0].pieces[0].text, "2 + 2 =");
  EXPECT_TRUE(samples[0].pieces[1].is_target);
}

TEST_F(PromptDataset, RefusesWhatIsNoPrompt) {
  const Error none = refusal("{\"question\": \"2?\", \"answer\": \"4\"}\n");
  EXPECT_EQ(none.message(), "the record has no \"prompt\"; its fields are \"question\", \"answer\"");
  EXPECT_TRUE(contains(none.where(), "line 1"));
  EXPECT_EQ(refusal("{\"prompt\": \"\"}\n").message(), "\"prompt\" is empty");
  EXPECT_EQ(refusal("{\"prompt\": 3}\n").message(), "\"prompt\" is a JSON number");
  EXPECT_TRUE(
      contains(refusal("{\"prompt\": \"a\", \"completion\": \"b\"}\n").message(), "\"completion\" stands beside"));
  const Error answered =
      refusal(R"({"prompt": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})"
              "\n");
  EXPECT_EQ(answered.kind(), ErrorKind::kUnsupported);
  EXPECT_TRUE(contains(answered.message(), "is the assistant's"));
}

TEST_F(PromptDataset, SaysWhichPromptsDoNotFit) {
  prepare("{\"prompt\": \"a\"}\n{\"prompt\": \"a much longer prompt than the other\"}\n");
  const TokenDataset dataset = TokenDataset::open(directory_ / "prompts");
  const Error error = caught([&] { DocumentPrompts(dataset, 0, 4); });
  EXPECT_TRUE(contains(error.message(), "1 of 2 prompts have more than 4 tokens")) << error.message();
  EXPECT_TRUE(contains(error.hint(), "grpo.max_completion_length")) << error.hint();
  PrepareOptions chats = options_of(R"({"prompt": "a", "completion": "b"})"
                                    "\n");
  chats.chat->prompts = false;
  chats.output = directory_ / "chats";
  prepare_dataset(chats, tokenizer_);
  const TokenDataset others = TokenDataset::open(directory_ / "chats");
  EXPECT_TRUE(contains(caught([&] { DocumentPrompts(others, 0, 40); }).message(), "holds no prompts"));
  EXPECT_TRUE(contains(caught([&] {
                         std::vector<TokenDataset> both;
                         both.push_back(TokenDataset::open(directory_ / "prompts"));
                         both.push_back(TokenDataset::open(directory_ / "chats"));
                         TokenDataset::join(std::move(both));
                       }).message(),
                       "the dataset is not of prompts"));
}

// Each prompt as many times as it has completions, one after another, and all once in an epoch.
TEST_F(PromptDataset, IsReadInGroups) {
  std::string lines;
  for (int i = 0; i < 7; ++i) lines += fmt::format("{{\"prompt\": \"{}\", \"answer\": \"{}\"}}\n", i, i);
  prepare(lines);
  const TokenDataset dataset = TokenDataset::open(directory_ / "prompts");
  const MixtureOrder order(dataset, std::vector<double>{1}, 20, 3, Packing::kWindows,
                           {.completions = 3, .completion_tokens = 10});
  EXPECT_EQ(order.samples_per_epoch(), 21u);
  std::vector<uint64_t> epochs[2];
  for (uint64_t sample = 0; sample < 42; sample += 3) {
    const uint64_t first = order.windows(sample).front().offset;
    for (uint64_t i = 1; i < 3; ++i) EXPECT_EQ(order.windows(sample + i).front().offset, first);
    EXPECT_TRUE(order.prompts(0)->number_at(first).has_value());
    epochs[sample / 21].push_back(first);
  }
  for (const auto& epoch : epochs) EXPECT_EQ(std::set<uint64_t>(epoch.begin(), epoch.end()).size(), 7u);
  EXPECT_NE(epochs[0], epochs[1]);
}

}  // namespace
}  // namespace causeway::data
