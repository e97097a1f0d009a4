// causeway generate, as a user runs it.
#include <sstream>

#include "tests/cli/program_under_test.h"

namespace causeway::cli {
namespace {

class GenerateCommand : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    prepare_data();
    const Outcome trained = run({"train", "tiny.yaml"});
    ASSERT_EQ(trained.status, 0) << trained.err;
  }

  std::vector<std::string> command(const std::vector<std::string>& options) const {
    std::vector<std::string> words = {"generate", "runs/tiny", "--tokens", "20"};
    words.insert(words.end(), options.begin(), options.end());
    return words;
  }
};

// In f32: of texts of 20 tokens drawn by a model in bf16 two to five in 25 differ, where a draw falls between what the
// two round a probability to.
TEST_F(GenerateCommand, WithAndWithoutTheCacheTheTextIsOne) {
  const Outcome trained = run({"train", "tiny.yaml", "name=exact", "train.precision=f32"});
  ASSERT_EQ(trained.status, 0) << trained.err;
  const auto text = [&](const std::string& prompt, const std::vector<std::string>& options) {
    std::vector<std::string> words = {"generate", "runs/exact", "--tokens", "20", "--prompt", prompt};
    words.insert(words.end(), options.begin(), options.end());
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.out;
  };
  // The second one goes beyond the 32 tokens of the model.
  for (const std::string prompt : {"the river ", "the long river runs under a"}) {
    const std::string cached = text(prompt, {});
    EXPECT_EQ(cached.size(), prompt.size() + 20 + 1) << cached;
    EXPECT_EQ(text(prompt, {"--no-cache"}), cached);
  }
}

TEST_F(GenerateCommand, PromptsOfAFileGiveAnObjectALine) {
  write("prompts.txt", "the river \r\n\r\nstones\nunder \"a\"\n");
  const Outcome outcome = run(command({"--prompts", "prompts.txt", "--batch-size", "2", "--temperature", "0"}));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  std::istringstream lines(outcome.out);
  std::vector<std::string> prompts;
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json object = nlohmann::json::parse(line);
    prompts.push_back(object["prompt"]);
    EXPECT_EQ(object["tokens"].size(), 20u);
    EXPECT_EQ(object, run_json(command({"--prompt", prompts.back(), "--temperature", "0", "--json"})));
  }
  EXPECT_EQ(prompts, (std::vector<std::string>{"the river ", "stones", "under \"a\""}));
  write("prompts.jsonl", "{\"prompt\": \"the river \"}\n{\"prompt\": \"stones\"}\n{\"prompt\": \"under \\\"a\\\"\"}\n");
  EXPECT_EQ(run(command({"--prompts", "prompts.jsonl", "--temperature", "0"})).out, outcome.out);
}

TEST_F(GenerateCommand, PromptsComeAsTokensAndFromStandardInput) {
  const nlohmann::json text = run_json(command({"--prompt", "the ", "--temperature", "0", "--json"}));
  nlohmann::json tokens = run_json(command({"--prompt-tokens", "116,104, 101 32", "--temperature", "0", "--json"}));
  EXPECT_EQ(tokens["prompt_tokens"], nlohmann::json({116, 104, 101, 32}));
  EXPECT_EQ(tokens["tokens"], text["tokens"]);
  EXPECT_EQ(run(command({"--prompt-tokens", "116,104,101,32", "--temperature", "0"})).out,
            run(command({"--prompt", "the ", "--temperature", "0"})).out);
  // Characters that JSON readers do not take as they are come as escapes.
  const Outcome outcome =
      run_shell(R"(printf '{"prompt": "the "}\n{"tokens": [116, 104, 101, 32]}\n{"prompt": "a\\u007f\\u0085b"}\n' |)"
                R"( $causeway generate runs/tiny --tokens 20 --temperature 0 --prompts - --format jsonl)");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  std::istringstream lines(outcome.out);
  std::vector<nlohmann::json> objects;
  for (std::string line; std::getline(lines, line);) objects.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(objects.size(), 3u);
  EXPECT_EQ(objects[0], text);
  EXPECT_EQ(objects[1], tokens);
  EXPECT_EQ(objects[2]["prompt"], "a\x7f\u0085b");
}

TEST_F(GenerateCommand, ADirectorysConfigurationSaysWhatEndsATextAndItsTokenizerWhatBeginsIt) {
  ASSERT_EQ(run({"export", "runs/tiny", "--output", "hf"}).status, 0);
  const std::vector<std::string> words = {"generate",      "hf", "--prompt", "the ", "--tokens", "20",
                                          "--temperature", "0",  "--json"};
  const nlohmann::json whole = run_json(words)["tokens"];
  EXPECT_EQ(whole, run_json(command({"--prompt", "the ", "--temperature", "0", "--json"}))["tokens"]);
  const int end = whole[5];
  size_t length = 1;
  while (whole[length - 1] != end) ++length;
  // Over config.json.
  nlohmann::json config = nlohmann::json::parse(read_text_file(path("hf/config.json")));
  config["eos_token_id"] = whole[0];
  write("hf/config.json", config.dump());
  write("hf/generation_config.json", nlohmann::json{{"eos_token_id", {0, end}}}.dump());
  EXPECT_EQ(run_json(words)["tokens"].size(), length);
  write("hf/generation_config.json", "{}");
  EXPECT_EQ(run_json(words)["tokens"].size(), 1u);
  write("hf/generation_config.json", R"({"eos_token_id": "x"})");
  expect_failure({"generate", "hf"}, 1, {"eos_token_id is neither the id of a token nor a list of ids"});
  write("hf/generation_config.json", R"({"eos_token_id": [0]})");
  // A tokenizer that begins every text with the byte 1: unlike it, the prompt as it is has been seen above.
  nlohmann::json tokenizer = nlohmann::json::parse(read_text_file(path("hf/tokenizer.json")));
  tokenizer["added_tokens"] = {{{"id", 1}, {"content", "\u0101"}, {"special", true}, {"normalized", false}}};
  tokenizer["post_processor"] =
      nlohmann::json::parse(R"({"type": "BertProcessing", "cls": ["x", 1], "sep": ["x", 32]})");
  write("hf/tokenizer.json", tokenizer.dump());
  std::vector<std::string> plain = words, given = words;
  plain.push_back("--no-special-tokens");
  EXPECT_EQ(run_json(plain)["tokens"], whole);
  given[2] = "--prompt-tokens", given[3] = "1,116,104,101,32,32";
  EXPECT_EQ(run_json(words)["tokens"], run_json(given)["tokens"]);
  std::vector<std::string> marked = plain;
  marked[3] = "\u0101the ", marked.emplace_back("--read-special-tokens");
  given[3] = "1,116,104,101,32";
  EXPECT_EQ(run_json(marked)["tokens"], run_json(given)["tokens"]);
}

TEST_F(GenerateCommand, ATextEndsBeforeAStop) {
  const nlohmann::json whole = run_json(command({"--prompt", "the ", "--temperature", "0", "--json"}));
  const std::string text = whole["text"], stop = text.substr(7, 2);
  const Outcome stopped = run(command({"--prompt", "the ", "--temperature", "0", "--stop", "\t", "--stop", stop}));
  EXPECT_EQ(stopped.out, "the " + text.substr(0, text.find(stop)) + "\n");
}

TEST_F(GenerateCommand, OptionsChangeWhatIsDrawn) {
  const std::string likeliest = run(command({"--temperature", "0"})).out;
  EXPECT_EQ(run(command({"--temperature", "3", "--top-p", "0.01"})).out, likeliest);
  EXPECT_EQ(run(command({"--temperature", "3", "--min-p", "1"})).out, likeliest);
  EXPECT_EQ(run(command({"--temperature", "3", "--top-k", "1"})).out, likeliest);
  EXPECT_NE(run(command({"--temperature", "3"})).out, likeliest);
  EXPECT_NE(run(command({"--temperature", "0", "--repetition-penalty", "9"})).out, likeliest);
}

TEST_F(GenerateCommand, BadInputIsNamed) {
  expect_failure(command({"--prompt-tokens", ""}), 1, {"--prompt-tokens", "the prompt is empty"});
  expect_failure(command({"--prompts", ""}), 1, {"--prompts", "the name of the file is empty"});
  expect_failure(command({"--prompt-tokens", "1,x"}), 1, {"\"x\" is not a token id", "--prompt-tokens"});
  write("bad.jsonl", "{\"prompt\": \"a\"}\n{\"tokens\": [1, -2]}\n");
  expect_failure(command({"--prompts", "bad.jsonl"}), 1, {"bad.jsonl, line 2", "holds something that is no token id"});
  expect_failure(command({"--top-p", "2"}), 1, {"top_p", "2 is not above 0 and at most 1"});
  expect_failure(command({"--min-p", "nan"}), 2, {"--min-p", "must be a finite number"});
  expect_failure(command({"--prompts", "nowhere.txt"}), 1, {"nowhere.txt"});
  expect_failure(command({"--prompts", "nowhere.txt", "--prompt", "a"}), 2, {"--prompts", "--prompt"});
  expect_failure(command({"--batch-size", "0"}), 2, {"--batch-size"});
  write("empty.txt", "\n\n");
  expect_failure(command({"--prompts", "empty.txt"}), 1, {"empty.txt", "the file has no prompts", "on each line"});
  write("bad.jsonl", "{\"prompt\": \"a\"}\n{\"text\": \"b\"}\n");
  expect_failure(command({"--prompts", "bad.jsonl"}), 1, {"bad.jsonl", "line 2", "\"prompt\""});
}

}  // namespace
}  // namespace causeway::cli
