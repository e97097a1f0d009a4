#include "causeway/train/hugging_face/model_directory.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "causeway/formats/tokenizer/gpt2_tokenizer.h"

namespace causeway::train {
namespace {

// Tokens that are named in a tokenizer's configuration and not in its vocabulary would get ids.
TEST(ModelDirectory, AVocabularysOwnTokensBeginAndEndTexts) {
  const auto files = Gpt2Tokenizer::load(CAUSEWAY_SOURCE_DIR "/tests/fixtures/gpt2_tokenizer").files();
  const Gpt2Tokenizer tokenizer =
      Gpt2Tokenizer::parse(files.at("vocab.json"), files.at("merges.txt"), "vocab.json", "merges.txt",
                           {{"special_tokens_map.json", R"({"eos_token": "!", "bos_token": "?"})"}});
  const ModelCompanions companions = companions_of(tokenizer, ModelConfig());
  const nlohmann::json settings = nlohmann::json::parse(companions.tokenizer_files.at("tokenizer_config.json"));
  EXPECT_EQ(settings["eos_token"], "!");
  EXPECT_EQ(settings["bos_token"], "?");
  EXPECT_EQ(companions.token_ids.at("eos_token_id"), *tokenizer.end_of_text());
}

}  // namespace
}  // namespace causeway::train
