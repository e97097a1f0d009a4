// Conversations from file to loss, as a user has them.
#include <sstream>

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

// A run keeps the template that it was trained with, and so does its export.
TEST_F(ChatRunTest, IsConversedWith) {
  const Outcome prepared = run(prepare({"--chat-template", chat_fixtures() + "/plain.jinja"}));
  ASSERT_EQ(prepared.status, 0) << prepared.err;
  const Outcome trained = run({"train", "tiny.yaml", "data.path=chat", "model.family=llama",
                               "model.vocabulary_size=300", "model.max_sequence_length=128", "data.sequence_length=128",
                               "data.packing=documents", "train.steps=3", "train.precision=f32", "name=chat"});
  ASSERT_EQ(trained.status, 0) << trained.err;
  const auto answer = [&](const std::vector<std::string>& further, const std::string& model = "runs/chat") {
    std::vector<std::string> words = {"generate", model, "--temperature", "0", "--tokens", "6", "--json"};
    words.insert(words.end(), further.begin(), further.end());
    return run_json(words);
  };
  const nlohmann::json by_template = answer({"--chat", "--prompt", "Count.", "--system", "Be kind."});
  EXPECT_EQ(by_template["prompt"], "Count.");
  const nlohmann::json by_hand =
      answer({"--read-special-tokens", "--prompt",
              "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nCount.<|im_end|>\n<|im_start|>assistant\n"});
  // What was written by hand does not say what ends an answer: the same tokens, up to there.
  const auto tokens = by_template["tokens"].get<std::vector<int32_t>>();
  auto on = by_hand["tokens"].get<std::vector<int32_t>>();
  ASSERT_FALSE(tokens.empty());
  ASSERT_LE(tokens.size(), on.size());
  on.resize(tokens.size());
  EXPECT_EQ(tokens, on);
  ASSERT_EQ(run({"export", "runs/chat", "--output", "hf"}).status, 0);
  EXPECT_EQ(read_text_file(path("hf/chat_template.jinja")), read_text_file(chat_fixtures() + "/plain.jinja"));
  EXPECT_EQ(answer({"--chat", "--prompt", "Count.", "--system", "Be kind."}, "hf")["tokens"], by_template["tokens"]);

  // What was said stays said: the second answer is that of the whole conversation.
  const Outcome turns = run_shell(
      "printf 'Count.\\n\\nAnd on?\\n' | $causeway generate runs/chat --chat --temperature 0 --tokens 6 --json");
  ASSERT_EQ(turns.status, 0) << turns.err;
  std::istringstream lines(turns.out);
  std::vector<nlohmann::ordered_json> answers;
  for (std::string line; std::getline(lines, line);) answers.push_back(nlohmann::ordered_json::parse(line));
  ASSERT_EQ(answers.size(), 2u) << turns.out;
  const nlohmann::ordered_json messages = {{{"role", "user"}, {"content", "Count."}},
                                           {{"role", "assistant"}, {"content", answers[0]["text"]}},
                                           {{"role", "user"}, {"content", "And on?"}}};
  write("chats.jsonl", nlohmann::ordered_json{{"messages", messages}}.dump() + "\n");
  const nlohmann::json whole = answer({"--chat", "--prompts", "chats.jsonl"});
  EXPECT_EQ(whole["tokens"], nlohmann::json(answers[1]["tokens"]));
  EXPECT_EQ(whole["messages"].size(), 3u);

  expect_failure({"generate", "runs/chat", "--chat", "--chat-template", "none", "--prompt", "x"}, 1,
                 {"has no chat template \"none\""});
  expect_failure({"generate", "runs/chat", "--system", "x"}, 2, {"--system requires --chat"});
  write("bad.jsonl", R"({"messages": [3]})");
  expect_failure({"generate", "runs/chat", "--chat", "--prompts", "bad.jsonl"}, 1,
                 {"bad.jsonl, line 1", "\"messages\" holds something that is no message"});
  expect_failure({"generate", "runs/chat", "--chat", "--prompt", sample_text(2000)}, 1,
                 {"the conversation has ", "and the model reads 128"});
  write("refuses.jinja", "{{ raise_exception('Only one turn!') }}");
  expect_failure({"generate", "runs/chat", "--chat", "--chat-template", "refuses.jinja", "--prompt", "x"}, 1,
                 {"Only one turn!"});
}

TEST_F(ChatRunTest, AModelWithoutATemplateIsNamed) {
  prepare_data();
  ASSERT_EQ(run({"train", "tiny.yaml", "train.steps=1", "--quiet"}).status, 0);
  expect_failure({"generate", "runs/tiny", "--chat", "--prompt", "x"}, 1,
                 {"the model has no chat template", "Give one: --chat-template FILE."});
  write("short.jinja", "{% for m in messages %}{{ m.content }}|{% endfor %}");
  const Outcome given =
      run({"generate", "runs/tiny", "--chat", "--chat-template", "short.jinja", "--prompt", "x", "--tokens", "3"});
  EXPECT_EQ(given.status, 0) << given.err;
}

// A list of conversations with weights, as issue and docs write it.
TEST_F(ChatRunTest, WeightsOfTurnsAreTrainedByAndShown) {
  write("held_out.json", read_text_file(chat_fixtures() + "/weighted.json"));
  const Outcome prepared =
      run({"data", "prepare", chat_fixtures() + "/weighted.json", "--chat", "--tokenizer", chat_fixtures(), "-o",
           "chat", "--validation", "held_out.json", "--allow-shared-documents"});
  ASSERT_EQ(prepared.status, 0) << prepared.err;
  EXPECT_NE(prepared.out.find("weights     targets count 1 or 0.1"), std::string::npos) << prepared.out;
  const Outcome shown = run({"data", "inspect", "chat", "--samples", "4"});
  ASSERT_EQ(shown.status, 0) << shown.err;
  EXPECT_NE(shown.out.find("⟦0.25 x Blue.<|im_end|>"), std::string::npos) << shown.out;
  const Outcome trained =
      run({"train", "tiny.yaml", "data.path=chat", "model.family=llama", "model.vocabulary_size=300",
           "model.max_sequence_length=128", "data.sequence_length=128", "data.packing=documents", "train.steps=3",
           "train.batch_size=4", "train.micro_batch_size=2", "name=weighted", "evaluation.interval=1"});
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_NE(trained.err.find("validation loss"), std::string::npos) << trained.err;
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
