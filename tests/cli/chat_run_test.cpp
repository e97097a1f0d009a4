// Conversations from file to loss, as a user has them.
#include "causeway/base/error.h"
#include "program_under_test.h"

namespace causeway::cli {
namespace {

class ChatRunTest : public CliTest {
 protected:
  static std::string chat_fixtures() {
    return (std::filesystem::path(CAUSEWAY_SOURCE_DIR) / "tests/fixtures/chat").string();
  }
  std::vector<std::string> prepare(const std::vector<std::string>& further = {}) {
    std::vector<std::string> arguments = {
        "data", "prepare", chat_fixtures() + "/chats.jsonl", "--chat", "--tokenizer", chat_fixtures(), "-o", "chat"};
    arguments.insert(arguments.end(), further.begin(), further.end());
    return arguments;
  }
};

TEST_F(ChatRunTest, IsPreparedShownAndTrainedOn) {
  const Outcome prepared = run(prepare());
  ASSERT_EQ(prepared.status, 0) << prepared.err;
  EXPECT_NE(prepared.out.find("tokens in 10 documents, 125 of them targets ("), std::string::npos) << prepared.out;
  EXPECT_NE(
      prepared.out.find("chat        9 conversations by the chat template; trained on: all turns of the assistant"),
      std::string::npos)
      << prepared.out;
  const Outcome shown = run({"data", "inspect", "chat", "--samples", "10"});
  ASSERT_EQ(shown.status, 0) << shown.err;
  EXPECT_NE(shown.out.find("<|im_start|>assistant\n⟦Four.<|im_end|>\n⟧"), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find("<|im_start|>assistant\nwrong<|im_end|>"), std::string::npos) << "of weight 0";
  EXPECT_NE(shown.out.find("The capital of France is⟦ Paris.<|endoftext|>⟧"), std::string::npos) << shown.out;

  const Outcome trained = run({"train", "tiny.yaml", "data.path=chat", "model.family=llama",
                               "model.vocabulary_size=300", "model.max_sequence_length=128", "data.sequence_length=128",
                               "data.packing=documents", "train.steps=3", "name=chat"});
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_NE(trained.err.find("tokens are targets"), std::string::npos) << trained.err;
}

TEST_F(ChatRunTest, SaysWhatWasCut) {
  const Outcome cut = run(prepare({"--max-length", "40", "--skip-without-target", "--targets", "last", "--overwrite"}));
  ASSERT_EQ(cut.status, 0) << cut.err;
  EXPECT_NE(cut.out.find("cut         "), std::string::npos) << cut.out;
  EXPECT_NE(cut.out.find("conversations to 40 tokens"), std::string::npos) << cut.out;
  EXPECT_NE(cut.out.find("conversations of which nothing is trained on"), std::string::npos) << cut.out;
  const nlohmann::json shown = run_json({"data", "inspect", "chat", "--json"});
  EXPECT_EQ(shown["targets"]["rule"], "last");
  EXPECT_EQ(shown["targets"]["max_length"], 40);
  EXPECT_EQ(shown["targets"]["truncation"], "right");
}

TEST_F(ChatRunTest, BadInputIsNamed) {
  write("unknown.jsonl", "{\"text\": \"x\"}\n");
  expect_failure({"data", "prepare", "unknown.jsonl", "--chat", "-o", "a"}, 1,
                 {"its fields are \"text\"", "unknown.jsonl, line 1", "Known are: messages"});
  write("empty.jsonl", "{\"prompt\": \"abc\", \"completion\": \"\"}\n");
  expect_failure({"data", "prepare", "empty.jsonl", "--chat", "-o", "a"}, 1,
                 {"nothing of the sample is trained on: abc", "--skip-without-target"});
  expect_failure({"data", "prepare", "empty.jsonl", "--targets", "last", "-o", "a"}, 2, {"--targets requires --chat"});
  expect_failure({"data", "prepare", "empty.jsonl", "--chat", "--chat-template", "none", "-o", "a"}, 1,
                 {"has no chat template \"none\""});
}

}  // namespace
}  // namespace causeway::cli
