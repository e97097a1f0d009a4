#include "causeway/base/field_words.h"

#include <gtest/gtest.h>

#include <set>

#include "causeway/base/error.h"

namespace causeway {
namespace {

const std::vector<std::string> kKeys = {"name",
                                        "model.heads",
                                        "model.dropout",
                                        "optimizer.learning_rate",
                                        "schedule.warmup_steps",
                                        "train.steps",
                                        "train.micro_batch_size",
                                        "mesh.dp",
                                        "mesh.fsdp",
                                        "evaluation.interval",
                                        "log.interval",
                                        "log.tensorboard"};

std::string key_hint(const std::string& key) { return name_hint(NameOf::kRecipeKey, key, kKeys, "All keys: ..."); }

TEST(NearestName, TypingMistakesAreFound) {
  const std::vector<std::string> names = {"train", "data", "prepare", "gpt2_124m", "shakespeare", "bf16", "hip"};
  EXPECT_EQ(nearest_name("trian", names), "train");  // letters that changed places are one mistake
  EXPECT_EQ(nearest_name("dat", names), "data");
  EXPECT_EQ(nearest_name("prepre", names), "prepare");
  EXPECT_EQ(nearest_name("gpt2_124", names), "gpt2_124m");
  EXPECT_EQ(nearest_name("shakspeer", names), "shakespeare");
  EXPECT_EQ(nearest_name("bf61", names), "bf16");
  EXPECT_EQ(nearest_name("hpi", names), "hip");
}

// Near by letters, and something else.
TEST(NearestName, OtherThingsAreNoTypingMistakes) {
  EXPECT_EQ(nearest_name("h100", {"h200", "h100_foundry"}), "");
  EXPECT_EQ(nearest_name("gpt3", {"gpt2"}), "");
  EXPECT_EQ(nearest_name("fp16", {"fp8", "tf32"}), "");
  EXPECT_EQ(nearest_name("tpu", {"cpu"}), "");
  EXPECT_EQ(nearest_name("mesh.ep", {"mesh.dp", "mesh.pp"}), "");
  EXPECT_EQ(nearest_name("layers.12.weight", {"layers.11.weight"}), "");
  EXPECT_EQ(nearest_name("pp", {"dp"}), "");
  EXPECT_EQ(nearest_name("", {"a", "b"}), "");
  EXPECT_EQ(nearest_name(std::string(100000, 'a'), {std::string(100000, 'a') + "b"}), "");
}

TEST(FieldWords, LeadToTheKey) {
  EXPECT_EQ(key_hint("lr"), "Here that is optimizer.learning_rate.");
  EXPECT_EQ(key_hint("optimizer.lr"), "Here that is optimizer.learning_rate.");
  EXPECT_EQ(key_hint("training.Max-LR"), "Here that is optimizer.learning_rate.");
  EXPECT_EQ(key_hint("trainer.max_steps"), "Here that is train.steps.");
  EXPECT_EQ(key_hint("warmup_ratio"),
            "Here that is schedule.warmup_steps. It counts steps: the ratio times train.steps.");
  EXPECT_EQ(key_hint("gradient_accumulation_steps"),
            "Here that is train.micro_batch_size. train.batch_size over it is how many micro-batches a step adds up.");
  // Names that are not there are not led to.
  EXPECT_EQ(key_hint("num_train_epochs"), "Here that is train.steps. A step takes train.batch_size sequences.");
  EXPECT_EQ(key_hint("zero_stage").find("Here that is mesh.fsdp or mesh.dp."), 0u);
}

TEST(FieldWords, SayWhatThereIsNot) {
  EXPECT_EQ(key_hint("loftq").find("Adapters begin at zero"), 0u) << key_hint("qlora");
  EXPECT_NE(key_hint("wandb.project").find("No service is told"), std::string::npos);
  EXPECT_NE(key_hint("wandb.log_interval").find("No service is told"), std::string::npos);
  EXPECT_NE(key_hint("train.flash_attention").find("nothing to turn on"), std::string::npos);
  EXPECT_EQ(key_hint("something_else_entirely"), "All keys: ...");
}

TEST(FieldWords, RightNamesInTheWrongPlaceAndTypingMistakes) {
  EXPECT_EQ(key_hint("learning_rate"), "Did you mean optimizer.learning_rate?");
  EXPECT_EQ(key_hint("train.learning_rate"), "Did you mean optimizer.learning_rate?");
  EXPECT_EQ(key_hint("modle.heads"), "Did you mean model.heads?");
  EXPECT_EQ(key_hint("interval"), "Did you mean evaluation.interval or log.interval?");
  EXPECT_EQ(key_hint("train.stesp"), "Did you mean train.steps?");
  EXPECT_EQ(key_hint("learning_rte"), "Did you mean optimizer.learning_rate?");
}

TEST(FieldWords, OfDevicesFamiliesPrecisionsCommandsAndOptions) {
  const std::vector<std::string> devices = {"auto", "cpu", "cuda", "hip", "emulator"};
  EXPECT_EQ(name_hint(NameOf::kDevice, "gpu", devices).find("Here that is cuda, hip or auto."), 0u);
  EXPECT_EQ(name_hint(NameOf::kDevice, "ROCm", devices), "Here that is hip.");
  EXPECT_EQ(name_hint(NameOf::kDevice, "tpu", devices), "There is no support for it.");
  const std::vector<std::string> families = {"gemma2", "gpt2", "llama", "mistral", "mpt", "qwen2", "qwen3"};
  EXPECT_EQ(name_hint(NameOf::kModelFamily, "deepseek_v3", families).find("It is not here"), 0u);
  EXPECT_EQ(name_hint(NameOf::kModelFamily, "opt", families), "It is not here.");
  const FieldWord more[] = {{NameOf::kModelFamily, "qwen", "qwen2 qwen3", ""}};
  EXPECT_EQ(name_hint(NameOf::kModelFamily, "Qwen", families, {}, more), "Here that is qwen2 or qwen3.");
  EXPECT_EQ(name_hint(NameOf::kModelFamily, "misstral", families), "Did you mean mistral?");
  EXPECT_EQ(name_hint(NameOf::kPrecision, "fp16", {"bf16", "f32"}).find("Here that is bf16. There is no fp16"), 0u);
  EXPECT_EQ(name_hint(NameOf::kPrecision, "fp16", {"bf16", "f16"}), "Did you mean f16?");
  EXPECT_EQ(name_hint(NameOf::kPrecision, "float32", {"bf16", "f32"}), "Here that is f32.");
  const std::vector<std::string> optimizers = {"adamw", "muon", "lion"};
  EXPECT_EQ(name_hint(NameOf::kOptimizer, "adamw_bnb_8bit", optimizers),
            "Here that is adamw. With optimizer.moments=8bit its averages lie in 8 bits.");
  EXPECT_EQ(name_hint(NameOf::kOptimizer, "paged_adamw_32bit", optimizers).find("Here that is adamw. With offload."),
            0u);
  EXPECT_EQ(name_hint(NameOf::kCommand, "finetune", {"train", "data"}).find("Here that is train."), 0u);
  EXPECT_EQ(name_hint(NameOf::kCommand, "validate", {"verify", "list"}), "");
  EXPECT_EQ(name_hint(NameOf::kOption, "max-new-tokens", {"tokens", "n"}), "Here that is --tokens.");
  EXPECT_EQ(name_hint(NameOf::kOption, "max-new-tokens", {"seed"}), "");
  EXPECT_EQ(name_hint(NameOf::kOption, "nproc", {"n"}), "Here that is -n.");
  EXPECT_EQ(name_hint(NameOf::kOption, "tokns", {"tokens"}), "Did you mean --tokens?");
}

// One word has one entry, and one without names has a sentence.
TEST(FieldWords, TheTableIsWhole) {
  std::set<std::pair<NameOf, std::string>> seen;
  for (const FieldWord& entry : field_words()) {
    EXPECT_FALSE(entry.names.empty() && entry.sentence.empty()) << entry.words;
    const std::string words(entry.words);
    for (size_t from = 0; from < words.size();) {
      const size_t to = std::min(words.find(' ', from), words.size());
      const std::string word = words.substr(from, to - from);
      EXPECT_TRUE(seen.emplace(entry.what, word).second) << word;
      EXPECT_FALSE(word.empty()) << words;
      from = to + 1;
    }
  }
}

}  // namespace
}  // namespace causeway
