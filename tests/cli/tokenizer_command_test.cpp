#include <gmock/gmock.h>

#include "tests/cli/program_under_test.h"

namespace causeway::cli {
namespace {

class TokenizerCommandTest : public CliTest {
 protected:
  static std::string fixture(const std::string& style) {
    return std::string(CAUSEWAY_SOURCE_DIR) + "/tests/fixtures/tokenizer_json/" + style;
  }
};

TEST_F(TokenizerCommandTest, EncodesAndDecodes) {
  EXPECT_EQ(run({"tokenizer", "encode", "bytes", "ab", "c"}).out, "97 98\n99\n");
  EXPECT_EQ(run({"tokenizer", "decode", "bytes", "97", "98"}).out, "ab\n");
  EXPECT_EQ(run_json({"tokenizer", "encode", "bytes", "ab", "--json"})["ids"], nlohmann::json({97, 98}));
  EXPECT_EQ(run_shell("printf 'a b' | $causeway tokenizer encode bytes").out, "97 32 98\n");
  EXPECT_EQ(run_shell("printf '97, 98\\n99' | $causeway tokenizer decode bytes").out, "abc\n");
  EXPECT_EQ(run_shell("printf '{\"text\":\"a\"}\\n{\"text\":\"b\"}\\n' | "
                      "$causeway tokenizer encode bytes --format jsonl --json")
                .out,
            "{\"ids\":[97]}\n{\"ids\":[98]}\n");
}

TEST_F(TokenizerCommandTest, KnowsSpecialTokens) {
  const std::string llama = fixture("llama3");
  const nlohmann::json plain = run_json({"tokenizer", "encode", llama, "<|end_of_text|>", "--json"})["ids"];
  EXPECT_GT(plain.size(), 1u);
  EXPECT_EQ(run({"tokenizer", "encode", llama, "<|end_of_text|>", "--read-special-tokens"}).out, "1201\n");
  EXPECT_EQ(run({"tokenizer", "encode", llama, "<|end_of_text|>", "--read-special-tokens", "--add-special-tokens"}).out,
            "1200 1201\n");
  EXPECT_EQ(run({"tokenizer", "decode", llama, "1200", "1201"}).out, "<|begin_of_text|><|end_of_text|>\n");
  EXPECT_EQ(run({"tokenizer", "decode", llama, "1200", "1201", "--skip-special-tokens"}).out, "\n");
  EXPECT_EQ(run({"tokenizer", "encode", "bytes", "a", "--read-special-tokens", "--add-special-tokens"}).out, "97\n");
  expect_failure({"tokenizer", "decode", "bytes", "x"}, 1, {"\"x\" is not a token id"});
  expect_failure({"tokenizer", "encode", fixture("none"), "a"}, 1, {"no tokenizer is called"});
}

TEST_F(TokenizerCommandTest, TrainsWhatDataIsPreparedWith) {
  std::string text;
  for (int i = 0; i < 500; ++i) text += "the quick brown fox " + std::to_string(i % 20) + "\n";
  write("fox.txt", text);
  const Outcome trained = run({"tokenizer", "train", "fox.txt", "--vocabulary", "280", "--output", "trained"});
  EXPECT_NE(trained.out.find("280 tokens from"), std::string::npos) << trained.out << trained.err;
  expect_failure({"tokenizer", "train", "fox.txt", "--vocabulary", "280", "--output", "trained"}, 1,
                 {"there is a tokenizer already"});
  const Outcome prepared = run({"data", "prepare", "fox.txt", "--tokenizer", "trained", "--output", "data"});
  EXPECT_EQ(prepared.status, 0) << prepared.err;
  EXPECT_EQ(run({"tokenizer", "encode", "trained", "the fox"}).out,
            run({"tokenizer", "encode", "data/tokenizer", "the fox"}).out);
  // A run carries it: its checkpoint writes text, and what is exported says which class reads it.
  write("fox.yaml", R"(name: fox
model: {family: llama, vocabulary_size: 280, layers: 1, width: 32, heads: 4, ffn_width: 64, max_sequence_length: 32}
data: {path: data, sequence_length: 32}
train: {steps: 2, batch_size: 4}
)");
  const Outcome run_of_fox = run({"train", "fox.yaml", "--quiet"});
  ASSERT_EQ(run_of_fox.status, 0) << run_of_fox.err;
  const Outcome said = run({"generate", "runs/fox", "--prompt", "the quick", "--tokens", "3"});
  EXPECT_EQ(said.status, 0) << said.err;
  EXPECT_THAT(said.out, testing::StartsWith("the quick"));
  ASSERT_EQ(run({"export", "runs/fox", "--output", "out"}).status, 0);
  EXPECT_EQ(read_text_file(path("out/tokenizer.json")), read_text_file(path("trained/tokenizer.json")));
  const nlohmann::json settings = nlohmann::json::parse(read_text_file(path("out/tokenizer_config.json")));
  EXPECT_EQ(settings["tokenizer_class"], "PreTrainedTokenizerFast");
  EXPECT_EQ(settings["eos_token"], "<|endoftext|>");
}

}  // namespace
}  // namespace causeway::cli
