// Preference pairs from file to loss, as a user has them.
#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "program_under_test.h"

namespace causeway::cli {
namespace {

class PreferenceRunTest : public CliTest {
 protected:
  static std::string fixture(const char* name) {
    return (std::filesystem::path(CAUSEWAY_SOURCE_DIR) / "tests/fixtures" / name).string();
  }
};

TEST_F(PreferenceRunTest, ArePreparedShownAndTrainedOn) {
  write("validation.jsonl", read_text_file(fixture("preference/pairs.jsonl")));
  const Outcome prepared =
      run({"data", "prepare", fixture("preference/pairs.jsonl"), "--chat", "--tokenizer", fixture("chat"),
           "--validation", "validation.jsonl", "--allow-shared-documents", "-o", "pairs"});
  ASSERT_EQ(prepared.status, 0) << prepared.err;
  EXPECT_NE(prepared.out.find("tokens in 6 preference pairs, "), std::string::npos) << prepared.out;
  EXPECT_NE(
      prepared.out.find("chat        24 sides of preference pairs by the chat template; trained on: all turns of the "
                        "assistant behind the prompt"),
      std::string::npos)
      << prepared.out;
  const Outcome shown = run({"data", "inspect", "pairs", "--samples", "6"});
  ASSERT_EQ(shown.status, 0) << shown.err;
  EXPECT_NE(shown.out.find("--- chosen: 32 tokens"), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find("⟦Four.<|im_end|>\n⟧"), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find("--- rejected: 52 tokens"), std::string::npos) << shown.out;

  write("prefer.yaml", fmt::format(R"(name: prefer
model: {{from: "{}"}}
data: {{path: pairs, sequence_length: 80}}
preference: {{loss: dpo}}
optimizer: {{learning_rate: 5e-4}}
train: {{steps: 3, batch_size: 4, micro_batch_size: 2, precision: f32}}
)",
                                   fixture("chat")));
  const Outcome trained = run({"train", "prefer.yaml"});
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_NE(trained.err.find("reference: log-probabilities of 24 completions by the weights of"), std::string::npos)
      << trained.err;
  EXPECT_NE(trained.err.find("data: 6 preference pairs of pairs"), std::string::npos) << trained.err;
  EXPECT_NE(trained.err.find("(6 pairs, "), std::string::npos) << trained.err;
  EXPECT_NE(trained.out.find(" per preference pair\n"), std::string::npos) << trained.out;
  EXPECT_TRUE(std::filesystem::exists(path("runs/prefer/reference.safetensors")));

  expect_failure(
      {"train", "prefer.yaml", "preference.loss=none", "name=none"}, 1,
      {"preference.loss: is none, and pairs holds preference pairs", "Give one of dpo, ipo, simpo, orpo and reward"});
}

TEST_F(PreferenceRunTest, BadPairsAreNamed) {
  write("pairs.jsonl", "{\"prompt\": \"a\", \"chosen\": \"b\"}\n");
  expect_failure({"data", "prepare", "pairs.jsonl", "--chat", "-o", "a"}, 1,
                 {"the preference pair has no \"rejected\"; its fields are \"prompt\", \"chosen\"",
                  "pairs.jsonl, line 1", "both texts or both lists of messages"});
}

}  // namespace
}  // namespace causeway::cli
