#include "causeway/train/recipe/recipe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <tuple>

#include "causeway/base/error.h"
#include "causeway/base/field_words.h"
#include "causeway/base/file.h"
#include "causeway/base/printable.h"
#include "tests/fixtures/temporary_directory.h"

namespace causeway::train {
namespace {

constexpr char kSmall[] = R"(name: small
model:
  family: gpt2
  vocabulary_size: 64
  width: 32
  heads: 4
data:
  path: data
train:
  batch_size: 8
)";

Recipe parse(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  return parse_recipe(yaml, "file.yaml", overrides);
}

// Everything an Error says, or "no error".
std::string error_of_recipe(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  try {
    parse(yaml, overrides);
  } catch (const Error& error) {
    return error.where() + ": " + error.message() + " | " + error.hint();
  }
  return "no error";
}

TEST(Recipe, TakesValuesAndResolvesTheRest) {
  const Recipe recipe = parse(kSmall, {"optimizer.learning_rate=1e-2", "train.micro_batch_size=2"});
  EXPECT_EQ(recipe.name, "small");
  EXPECT_EQ(recipe.model.family, "gpt2");
  EXPECT_EQ(recipe.model.head_dim, 8);
  EXPECT_EQ(recipe.model.ffn_width, 128);
  EXPECT_TRUE(recipe.model.tie_embeddings);
  EXPECT_EQ(recipe.optimizer.learning_rate, 1e-2);
  EXPECT_EQ(recipe.micro_batches(), 4);
  EXPECT_EQ(recipe.schedule.total_steps, recipe.train.steps);
  EXPECT_EQ(recipe.run_directory, "runs/small");
  EXPECT_EQ(parse(kSmall).train.micro_batch_size, 8);
  EXPECT_EQ(parse(kSmall, {"run_directory=/elsewhere"}).run_directory, "/elsewhere");
}

TEST(Recipe, LaterOverridesWin) {
  EXPECT_EQ(parse(kSmall, {"train.steps=5", "train.steps=7"}).train.steps, 7);
  EXPECT_EQ(parse(kSmall, {"sampling.prompt=a=b"}).sampling.prompt, "a=b");
}

TEST(Recipe, EpochsStandInPlaceOfSteps) {
  EXPECT_EQ(parse("train: {epochs: 1.5}").train.epochs, 1.5);
  EXPECT_EQ(parse("train: {epochs: 1.5}").train.steps, 0);  // follows from the data
  const Recipe written = parse("train: {epochs: 2}");
  EXPECT_EQ(recipe_text(parse(recipe_text(written))), recipe_text(written));
  // The command line replaces either.
  EXPECT_EQ(parse("train: {steps: 5}", {"train.epochs=2"}).train.steps, 0);
  EXPECT_EQ(parse("train: {epochs: 2}", {"train.steps=5"}).train.epochs, 0);
  for (const std::string zero : {"0", "0.0", "0e3"})
    EXPECT_EQ(parse("train: {epochs: 2, steps: 7}", {"train.epochs=" + zero}).train.steps, 7) << zero;
  for (const std::string epochs : {"-1", "1e300"})
    EXPECT_TRUE(error_of_recipe("train: {epochs: " + epochs + "}").starts_with("file.yaml: train.epochs: ")) << epochs;
  EXPECT_EQ(error_of_recipe("train: {steps: 0}"), "file.yaml: train.steps: must be at least 1 | ");
  EXPECT_EQ(
      error_of_recipe("data: {allow_other_tokenizer: true}"),
      "file.yaml: data.allow_other_tokenizer: has no effect without model.from | Delete the key, or choose what it "
      "belongs to.");
}

TEST(Recipe, PrintedItReadsBackTheSame) {
  Recipe recipe = parse(kSmall, {"sampling.prompt=\"two\nlines: {}\"", "optimizer.learning_rate=0.1",
                                 "optimizer.epsilon=1.2345678901234567e-9", "schedule.kind=wsd",
                                 "schedule.decay_steps=10", "log.tensorboard=false"});
  const Recipe again = parse(recipe_text(recipe));
  EXPECT_EQ(recipe_text(again), recipe_text(recipe));
  EXPECT_EQ(again.model, recipe.model);
  EXPECT_EQ(again.sampling.prompt, "\"two\nlines: {}\"");
  EXPECT_EQ(again.optimizer.own_number("epsilon"), 1.2345678901234567e-9);
  EXPECT_FALSE(again.log.tensorboard);
  std::string every_character;
  for (int c = 1; c < 256; ++c) every_character += static_cast<char>(c);
  const std::string saved = recipe_text(parse(kSmall, {"sampling.prompt=" + every_character}));
  EXPECT_EQ(recipe_text(parse(saved)), saved);
}

TEST(Recipe, AnEmptyFileIsNoRecipe) {
  for (const char* text : {"", "\n", "# a comment\n", "---\n"})
    EXPECT_EQ(error_of_recipe(text),
              "file.yaml: the recipe is empty | docs/recipes.md lists the keys; the files under "
              "recipes/ are examples.")
        << text;
  EXPECT_EQ(parse("name: x").train.steps, Recipe().train.steps);
  EXPECT_EQ(parse("log: {}").name, "run");
}

TEST(Recipe, AnIntegerMayHaveAnExponent) {
  EXPECT_EQ(parse(kSmall, {"train.steps=1e3"}).train.steps, 1000);
  EXPECT_EQ(parse(kSmall, {"train.steps=1.5E+3"}).train.steps, 1500);
  EXPECT_EQ(parse("train: {steps: 2e4}").train.steps, 20'000);
  for (const char* text : {"1.5", "1.0", "1e-1", "1.55e1", "1e400", "1e16", "e3", "1e", "0x10", "", " 5"})
    EXPECT_EQ(error_of_recipe(kSmall, {std::string("train.steps=") + text}),
              fmt::format("command line: train.steps: '{}' is not an integer | ", text));
}

TEST(Recipe, NumbersAreFinite) {
  for (const char* text : {"inf", "-inf", "infinity", "nan", "1e400"})
    EXPECT_EQ(error_of_recipe(kSmall, {std::string("optimizer.learning_rate=") + text}),
              fmt::format("command line: optimizer.learning_rate: '{}' is not a number | ", text));
  EXPECT_EQ(parse(kSmall, {"optimizer.learning_rate=1e30"}).optimizer.learning_rate, 1e30);
}

// Who wrote what is wrong: the file, an override of the key, or an override of another.
TEST(Recipe, ErrorsOfOverridesNameTheOverride) {
  EXPECT_EQ(error_of_recipe("train: {steps: 0}"), "file.yaml: train.steps: must be at least 1 | ");
  EXPECT_EQ(error_of_recipe(kSmall, {"train.steps=0"}), "command line: train.steps: must be at least 1 | ");
  EXPECT_EQ(error_of_recipe("train: {steps: 0}", {"train.seed=3"}), "file.yaml: train.steps: must be at least 1 | ");
  EXPECT_EQ(error_of_recipe("train: {batch_size: 8, micro_batch_size: 2}", {"train.seed=3", "train.batch_size=5"}),
            "command line: train.batch_size=5: train.micro_batch_size: 2 does not divide train.batch_size, 5 | ");
  EXPECT_EQ(error_of_recipe(kSmall, {"model.width=30", "train.seed=3"}).substr(0, 46),
            "command line: model.width=30: model.heads: 4 h");
  // No one of them alone is to blame.
  EXPECT_EQ(error_of_recipe(kSmall, {"model.layers=3", "model.width=65536", "model.heads=64"}),
            "command line: model.width=65536, model.heads=64: model.head_dim: 1024 is not between 1 and 512 | ");
  EXPECT_EQ(error_of_recipe("schedule: {warmup_steps: 100}", {"train.steps=50"}),
            "command line: train.steps=50: schedule.warmup_steps: a warm-up of 100 steps does not fit the run's 50 | "
            "Train longer, or set schedule.warmup_steps=5 as well.");
  EXPECT_EQ(
      error_of_recipe("schedule: {kind: wsd, warmup_steps: 10, decay_steps: 100}", {"train.steps=50"}),
      "command line: train.steps=50: schedule.decay_steps: a warm-up of 10 and a decay of 100 steps do not fit the "
      "run's 50 | Train longer, or set schedule.warmup_steps=5 and schedule.decay_steps=5 as well.");
  for (const int steps : {2, 3, 9, 50})
    EXPECT_NO_THROW(parse("schedule: {kind: wsd, warmup_steps: 10, decay_steps: 100}",
                          {fmt::format("train.steps={}", steps), fmt::format("schedule.warmup_steps={}", steps / 10),
                           fmt::format("schedule.decay_steps={}", std::max(2, steps / 10))}));
}

TEST(Recipe, NamesAreNamesOfDirectories) {
  for (const char* name : {"..", ".", "a/b", "", "a\nb", "\x1b[31m", "a\x7f", "\xff", "\xc2\x9b"}) {
    const std::string text = error_of_recipe(kSmall, {std::string("name=") + name});
    EXPECT_EQ(text.substr(0, 20), "command line: name: ") << name;
    EXPECT_TRUE(is_printable(text)) << text;
  }
  EXPECT_EQ(error_of_recipe("name: \"\\e[2Jx\"\n").substr(0, 25), "file.yaml: name: '\\x1b[2J");
  EXPECT_NE(error_of_recipe(kSmall, {"run_directory=a\nb"}), "no error");
  EXPECT_NE(error_of_recipe(kSmall, {"name=" + std::string(300, 'x')}), "no error");
  for (const char* name : {"a b", "...", "..a", "naïve", "x.y"})
    EXPECT_EQ(parse(kSmall, {std::string("name=") + name}).run_directory, std::string("runs/") + name);
}

// A key that changes nothing is a misunderstanding.
TEST(Recipe, KeysWithoutEffectAreRefused) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"model.tie_embeddings=false"}, "model.tie_embeddings: the embeddings of gpt2 are always tied"},
      {{"model.family=mpt", "model.tie_embeddings=false"}, "model.tie_embeddings: the embeddings of mpt"},
      {{"model.rope_theta=5e5"}, "model.rope_theta: has no effect on gpt2"},
      {{"model.alibi_bias_max=4"}, "model.alibi_bias_max: has no effect on gpt2"},
      {{"model.sliding_window=4"},
       "model.sliding_window: has no effect on gpt2: it belongs to gemma2, mistral and mixtral"},
      {{"model.kv_heads=2"},
       "model.kv_heads: GQA belongs to gemma2, llama, mistral, mixtral, olmo2, olmoe, qwen2, qwen2_moe, qwen3 and "
       "qwen3_moe"},
      {{"schedule.kind=wsd", "schedule.decay_steps=1"}, "schedule.decay_steps: 1 step of decay has no effect"},
      {{"schedule.kind=constant", "schedule.final_factor=0.1"}, "schedule.final_factor: has no effect on the constant"},
      {{"schedule.decay_steps=3"}, "schedule.decay_steps: the cosine schedule has no decay_steps"},
      {{"optimizer.moment_rounding=stochastic"}, "optimizer.moment_rounding: has no effect on averages in f32"},
      {{"optimizer.moments=bf16", "optimizer.moment_block=64"}, "optimizer.moment_block: has no effect on averages in"},
      {{"sampling.temperature=0", "sampling.top_k=3"}, "sampling.top_k: has no effect at sampling.temperature 0"},
  };
  for (const auto& [overrides, expected] : cases)
    EXPECT_NE(error_of_recipe(kSmall, overrides).find(std::string("command line: ") + expected), std::string::npos)
        << error_of_recipe(kSmall, overrides);
  EXPECT_NO_THROW(parse(kSmall, {"model.tie_embeddings=true", "model.rope_theta=10000"}));
  EXPECT_NO_THROW(parse(kSmall, {"model.family=llama", "model.tie_embeddings=false", "model.rope_theta=5e5"}));
  // A run that was saved goes on.
  const std::string saved = recipe_text(parse(kSmall));
  const size_t at = saved.find("rope_theta: 10000");
  ASSERT_NE(at, std::string::npos);
  const std::string older = std::string(saved).replace(at, 17, "rope_theta: 50000");
  EXPECT_NE(error_of_recipe(older), "no error");
  EXPECT_EQ(parse_saved_recipe(older, "recipe of the checkpoint").model, parse(kSmall).model);
}

TEST(Recipe, ASavedOneOfBeforeAModelKeyGoesOn) {
  for (const char* family : {"gpt2", "llama", "mistral"}) {
    const Recipe recipe = parse(kSmall, {std::string("model.family=") + family});
    const std::string saved = recipe_text(recipe);
    const std::string older = std::regex_replace(saved, std::regex("\n *rope_(factor|low|high|original)[^\n]*"), "");
    ASSERT_EQ(std::ranges::count(saved, '\n') - std::ranges::count(older, '\n'), 4);
    const Recipe read = parse_saved_recipe(older, "recipe of the checkpoint");
    EXPECT_EQ(read.model, recipe.model);
    EXPECT_TRUE(recipe_differences(read, recipe).empty());
    EXPECT_EQ(recipe_text(read), saved);
  }
}

// Products of sizes are computed in 64 bits, so each is bounded before.
TEST(Recipe, SizesBeyondAllReasonAreRefused) {
  for (const char* key : {"model.vocabulary_size", "model.layers", "model.width", "model.heads", "model.kv_heads",
                          "model.head_dim", "model.ffn_width", "model.max_sequence_length", "model.sliding_window",
                          "data.sequence_length", "train.batch_size", "train.micro_batch_size", "train.steps"})
    for (const char* value :
         {"9223372036854775807", "4611686018427387904", "1000000000000000", "-9223372036854775808"}) {
      const std::string text = error_of_recipe("name: x", {fmt::format("{}={}", key, value)});
      EXPECT_NE(text.find(key), std::string::npos) << key << "=" << value << " gave: " << text;
    }
  EXPECT_EQ(error_of_recipe("name: x", {"model.layers=1000000"}),
            "command line: model.layers: 1000000 is more than 1024, the largest that can be built | ");
  EXPECT_NE(error_of_recipe("name: x", {"train.batch_size=100000000"}).find("the most of one step"), std::string::npos);
  // The largest there is can still be counted.
  const Recipe largest = parse(
      "name: x", {"model.vocabulary_size=16777216", "model.layers=1024", "model.width=1048576", "model.heads=65536",
                  "model.head_dim=512", "model.ffn_width=4194304", "model.max_sequence_length=16777216"});
  EXPECT_GT(parameter_count(largest.model), int64_t{1} << 50);
  EXPECT_LT(parameter_count(largest.model), int64_t{1} << 59);
}

TEST(Recipe, UnknownKeysAreAnsweredWithTheNearest) {
  EXPECT_EQ(error_of_recipe("modle:\n  heads: 2\n"), "file.yaml: modle.heads: unknown key | Did you mean model.heads?");
  EXPECT_EQ(error_of_recipe("heads: 2\n"), "file.yaml: heads: unknown key | Did you mean model.heads?");
  EXPECT_EQ(error_of_recipe("nothing_of_the_kind: 2\n"),
            "file.yaml: nothing_of_the_kind: unknown key | `causeway recipe keys` lists all keys.");
  EXPECT_EQ(error_of_recipe(kSmall, {"train.stesp=3"}),
            "command line: train.stesp: unknown key | Did you mean train.steps?");
}

// What other trainers call it. Names in the table are keys that there are.
TEST(Recipe, WordsOfTheFieldLeadToTheKey) {
  EXPECT_EQ(error_of_recipe(kSmall, {"lr=1e-3"}),
            "command line: lr: unknown key | Here that is optimizer.learning_rate.");
  EXPECT_EQ(error_of_recipe(kSmall, {"train.fp16=true"}),
            "command line: train.fp16: unknown key | Here that is train.precision. There is no fp16: "
            "train.precision=bf16 has its speed and needs no loss scale.");
  EXPECT_EQ(error_of_recipe(kSmall, {"lora_r=8"}),
            "command line: lora_r: unknown key | Here that is lora.rank. Above 0 there are adapters, which alone are "
            "trained.");
  EXPECT_NE(error_of_recipe(kSmall, {"train.precision=fp16"}).find("Here that is bf16."), std::string::npos);
  EXPECT_NE(error_of_recipe(kSmall, {"train.recompute=full"}).find("Here that is block."), std::string::npos);
  EXPECT_NE(error_of_recipe(kSmall, {"model.family=deepseek_v3"}).find("It is not here: of those whose layers"),
            std::string::npos);
  std::set<std::string> keys;
  for (const RecipeKey& key : recipe_keys()) keys.insert(key.key);
  for (const FieldWord& entry : field_words()) {
    if (entry.what != NameOf::kRecipeKey || entry.names.empty()) continue;
    std::istringstream names{std::string(entry.names)};
    bool any = false;
    for (std::string name; names >> name;) any = any || keys.contains(name);
    EXPECT_TRUE(any) << entry.names;
  }
}

TEST(Recipe, NamesItsOptimizer) {
  EXPECT_EQ(parse(kSmall).optimizer.name, "adamw");
  EXPECT_EQ(parse(kSmall, {"optimizer.name=adamw"}).optimizer, parse(kSmall).optimizer);
  EXPECT_EQ(parse(kSmall).optimizer.own_number("beta2"), 0.95);
  // A run of before there was a choice.
  EXPECT_EQ(parse_saved_recipe("optimizer: {beta1: 0.8, learning_rate: 0.5}", "saved").optimizer,
            parse(kSmall, {"optimizer.beta1=0.8", "optimizer.learning_rate=0.5"}).optimizer);
  // The key's name in runs of before it was the field's.
  EXPECT_EQ(parse_saved_recipe("optimizer: {kind: adamw, beta1: 0.8}", "saved").optimizer,
            parse(kSmall, {"optimizer.beta1=0.8"}).optimizer);
  EXPECT_EQ(parse(kSmall, {"optimizer.kind=adamw"}).optimizer, parse(kSmall).optimizer);
  EXPECT_EQ(error_of_recipe(kSmall, {"optimizer.kind=none"}).substr(0, 44),
            "command line: optimizer.kind: unknown optimi");
  EXPECT_EQ(error_of_recipe("optimizer: {kind: adamw, name: adamw}\n"),
            "file.yaml: optimizer.name: is another name of optimizer.kind, which is given too | Delete one of them.");
  // Defaults are the chosen one's, also in what it saves, and after another one's recipe.
  const Recipe lion = parse(kSmall, {"optimizer.name=lion"});
  EXPECT_EQ(lion.optimizer.own_number("beta2"), 0.99);
  EXPECT_NE(recipe_text(lion).find("beta2: 0.99\n"), std::string::npos);
  EXPECT_NE(recipe_text(parse(kSmall)).find("\n  epsilon: "), std::string::npos);
  const std::string text_of_lion = recipe_text(lion);
  const size_t own_keys = text_of_lion.find("\noptimizer:\n") + 1;
  ASSERT_NE(own_keys, std::string::npos + 1);
  const size_t next_section = text_of_lion.find("\nschedule:", own_keys);
  ASSERT_NE(next_section, std::string::npos);
  EXPECT_GT(text_of_lion.find("\n  epsilon: ", own_keys), next_section);
  EXPECT_EQ(parse(recipe_text(lion)).optimizer, lion.optimizer);
  const Recipe sgd = parse(recipe_text(parse(kSmall)), {"optimizer.name=sgd"});
  EXPECT_EQ(sgd.optimizer.own_number("momentum"), 0.9);
  EXPECT_FALSE(sgd.optimizer.own_truth("nesterov"));
  EXPECT_EQ(parse(kSmall, {"optimizer.name=muon"}).optimizer.own_number("momentum"), 0.95);
  EXPECT_EQ(error_of_recipe(kSmall, {"optimizer.name=muon", "optimizer.momentum=1"}),
            "command line: optimizer.momentum: must be at least 0 and below 1 | ");
  EXPECT_EQ(error_of_recipe(kSmall, {"optimizer=adamw"}),
            "command line: optimizer: unknown key | Here that is optimizer.name.");
  EXPECT_NE(error_of_recipe(kSmall, {"optimizer.name=adam"})
                .find("optimizer.name: unknown optimizer 'adam' | Here that is adamw."),
            std::string::npos);
  EXPECT_NE(error_of_recipe(kSmall, {"optimizer.name=adamv"}).find("Did you mean adamw?"), std::string::npos);
}

// Of a file and of the command line; the resolved recipe has the keys' own names alone.
TEST(Recipe, TakesTheNamesOfConfigJson) {
  const std::tuple<std::string, std::string, std::string> names[] = {
      {"hidden_size", "width", "512"},           {"num_hidden_layers", "layers", "3"},
      {"num_attention_heads", "heads", "8"},     {"num_key_value_heads", "kv_heads", "2"},
      {"intermediate_size", "ffn_width", "640"}, {"max_position_embeddings", "max_sequence_length", "2048"},
      {"rms_norm_eps", "norm_epsilon", "1e-06"},
  };
  EXPECT_EQ(std::size(names), config_json_names().size());
  std::string all = "model:\n", own = all;
  for (const auto& [alias, key, value] : names) {
    const std::string resolved = recipe_text(parse("model: {" + key + ": " + value + "}"));
    const std::string by_alias = recipe_text(parse("model: {" + alias + ": " + value + "}"));
    EXPECT_EQ(by_alias, resolved) << alias;
    EXPECT_EQ(by_alias.find(alias), std::string::npos) << alias;
    EXPECT_NE(by_alias.find("\n  " + key + ": " + value + "\n"), std::string::npos) << by_alias;
    EXPECT_EQ(recipe_text(parse("name: run", {"model." + alias + "=" + value})), resolved) << alias;
    EXPECT_EQ(recipe_text(parse_saved_recipe(by_alias, "saved")), resolved) << alias;
    all += "  " + alias + ": " + value + "\n";
    own += "  " + key + ": " + value + "\n";
  }
  EXPECT_EQ(recipe_text(parse(all)), recipe_text(parse(own)));
}

TEST(Recipe, OverridesReplaceAKeyByEitherName) {
  EXPECT_EQ(parse("model: {width: 64}", {"model.hidden_size=128"}).model.width, 128);
  EXPECT_EQ(parse("model: {hidden_size: 64}", {"model.width=128"}).model.width, 128);
  EXPECT_EQ(parse("model: {hidden_size: 64}", {"model.hidden_size=128"}).model.width, 128);
  EXPECT_EQ(parse("name: x", {"model.width=64", "model.hidden_size=128"}).model.width, 128);
  EXPECT_EQ(parse("name: x", {"model.hidden_size=128", "model.width=64"}).model.width, 64);
}

TEST(Recipe, BothNamesOfAKeyInOneFileAreRefused) {
  for (const ConfigJsonName& entry : config_json_names()) {
    const std::string alias(entry.name), key(entry.key);
    EXPECT_EQ(error_of_recipe("model: {" + key + ": 1, " + alias + ": 1}"),
              "file.yaml: model." + alias + ": is another name of model." + key +
                  ", which is given too | Delete one of them.");
    EXPECT_EQ(error_of_recipe("model: {" + alias + ": 1, " + key + ": 1}"),
              "file.yaml: model." + key + ": is another name of model." + alias +
                  ", which is given too | Delete one of them.");
    EXPECT_EQ(error_of_recipe("model: {" + alias + ": 1, " + alias + ": 1}"),
              "file.yaml: model." + alias + ": is given twice | ");
  }
}

// Complaints are about what was written, and suggestions know the names.
TEST(Recipe, ErrorsHaveTheNameThatWasWritten) {
  EXPECT_EQ(error_of_recipe("model: {hidden_size: wide}"), "file.yaml: model.hidden_size: 'wide' is not an integer | ");
  EXPECT_EQ(
      error_of_recipe("model: {num_hidden_layers: 1000000}"),
      "file.yaml: model.num_hidden_layers (model.layers): 1000000 is more than 1024, the largest that can be built "
      "| ");
  EXPECT_EQ(error_of_recipe("name: x", {"model.num_hidden_layers=1000000"}),
            "command line: model.num_hidden_layers (model.layers): 1000000 is more than 1024, the largest that can be "
            "built | ");
  EXPECT_EQ(error_of_recipe("hidden_size: 64"),
            "file.yaml: hidden_size: unknown key | Did you mean model.hidden_size?");
  EXPECT_EQ(error_of_recipe("model: {hiden_size: 64}"),
            "file.yaml: model.hiden_size: unknown key | Did you mean model.hidden_size?");
  EXPECT_EQ(error_of_recipe("model: {d_model: 64}"),
            "file.yaml: model.d_model: unknown key | Here that is model.width.");
  std::set<std::string> names;
  for (const std::string& name : recipe_key_names()) EXPECT_TRUE(names.insert(name).second) << name;
  EXPECT_EQ(names.size(), recipe_keys().size() + config_json_names().size());
}

TEST(Recipe, ValuesOfAnotherKindAreErrors) {
  EXPECT_EQ(error_of_recipe("train:\n  steps: 1.5\n"), "file.yaml: train.steps: '1.5' is not an integer | ");
  EXPECT_EQ(error_of_recipe("train:\n  steps: 99999999999999999999\n"),
            "file.yaml: train.steps: '99999999999999999999' is not an integer | ");
  EXPECT_EQ(error_of_recipe("train:\n  steps: [1, 2]\n"), "file.yaml: train.steps: must be a single value | ");
  EXPECT_EQ(error_of_recipe("train: 3\n"), "file.yaml: train: unknown key | `causeway recipe keys` lists all keys.");
  EXPECT_EQ(error_of_recipe("optimizer:\n  beta1: fast\n"), "file.yaml: optimizer.beta1: 'fast' is not a number | ");
  EXPECT_EQ(error_of_recipe("data:\n  document_mask: 1\n"),
            "file.yaml: data.document_mask: '1' is not true or false | ");
}

// Every name of a table is taken and written again; another is refused with all of them.
TEST(Recipe, ChoicesAreTheNamesOfTheirTables) {
  std::map<std::string, std::vector<std::string>> choices;
  for (const RecipeKey& key : recipe_keys()) choices[key.key] = key.choices;
  EXPECT_EQ(choices.at("data.packing"), names_of<Packing>());
  EXPECT_EQ(choices.at("data.on_damaged_shard"), names_of<FaultPolicy>());
  EXPECT_EQ(choices.at("schedule.kind"), names_of<ScheduleKind>());
  EXPECT_EQ(choices.at("train.precision"), names_of<Precision>());
  EXPECT_EQ(choices.at("train.gradients"), names_of<GradientType>());
  EXPECT_EQ(choices.at("train.recompute"), (std::vector<std::string>{"none", "selective", "block", "auto"}));
  EXPECT_EQ(choices.at("train.on_non_finite"), names_of<FaultPolicy>());
  EXPECT_EQ(choices.at("train.pipeline_schedule"), names_of<PipelineSchedule>());
  for (const auto& [key, names] : choices) {
    if (names.empty() || names.front() == "true" || key == "model.family" || key == "optimizer.name") continue;
    for (const std::string& name : names) {
      // What goes with it.
      std::vector<std::string> overrides = {key + "=" + name};
      if (name == "wsd") overrides.insert(overrides.end(), {"schedule.decay_steps=10", "train.steps=100"});
      if (key == "train.pipeline_schedule") overrides.insert(overrides.end(), {"mesh.pp=2", "model.layers=4"});
      if (key == "optimizer.update_scale") overrides.emplace_back("optimizer.name=muon");
      if (key == "optimizer.moment_rounding") overrides.emplace_back("optimizer.moments=bf16");
      if (key.starts_with("lora.")) overrides.emplace_back("lora.rank=4");
      if (key.starts_with("grpo.") && key != "grpo.reward") overrides.emplace_back("grpo.reward=exact_match");
      if (key == "grpo.reward" && name == "regex") overrides.emplace_back("grpo.reward_pattern=x");
      if (key == "grpo.reward" && name == "program") overrides.emplace_back("grpo.reward_program=cat");
      if (name == "interleaved")
        overrides.insert(overrides.end(), {"train.pipeline_chunks=2", "train.micro_batch_size=4"});
      ASSERT_EQ(error_of_recipe(kSmall, overrides), "no error") << key << "=" << name;
      const Recipe recipe = parse(kSmall, overrides);
      EXPECT_NE(recipe_text(recipe).find(": \"" + name + "\"\n"), std::string::npos) << recipe_text(recipe);
      EXPECT_TRUE(recipe_differences(recipe, parse_saved_recipe(recipe_text(recipe), "saved")).empty());
    }
    EXPECT_EQ(error_of_recipe(kSmall, {key + "=zzzzzzzzzz"}),
              fmt::format("command line: {}: 'zzzzzzzzzz' is not one of {} | ", key, fmt::join(names, ", ")));
  }
}

TEST(Recipe, AxesOfTheMeshHaveTheirSizesByName) {
  Recipe::MeshSizes sizes;
  for (const auto& [axis, name] : named_values(MeshAxisId())) {
    EXPECT_EQ(sizes.size(axis), 1) << name;
    sizes.size(axis) = 2;
    const Recipe recipe = parse(kSmall, {fmt::format("mesh.{}=2", name), "model.layers=2", "data.sequence_length=64"});
    EXPECT_EQ(recipe.mesh.size(axis), 2) << name;
    EXPECT_EQ(recipe.mesh.axes(), (std::vector<std::pair<MeshAxisId, int64_t>>{{axis, 2}})) << name;
    ASSERT_NE(find_axis(make_mesh(recipe.mesh), axis), nullptr) << name;
    EXPECT_EQ(find_axis(Mesh(), axis), nullptr) << name;
  }
  EXPECT_EQ(sizes.ranks(), 32);
}

TEST(Recipe, SourcesAreAListOfPathsAndWeights) {
  const std::vector<DataSource> expected = {{"a b", 0.7}, {"c,{d}: \"e\"", 1}, {"~/f", 1e-3}};
  const char* const block =
      "data:\n  sources:\n    - path: a b\n      weight: 0.7\n    - {path: 'c,{d}: \"e\"'}\n    - weight: 1e-3\n"
      "      path: ~/f\n";
  const Recipe recipe = parse(block);
  EXPECT_EQ(recipe.data.mixture, expected);
  EXPECT_EQ(recipe.data.sources(), expected);
  EXPECT_EQ(parse(recipe_text(recipe)).data.mixture, expected);
  EXPECT_EQ(parse_saved_recipe(recipe_text(recipe), "saved").data.mixture, expected);
  EXPECT_EQ(parse("name: x", {"data.sources=" + print_data_sources(expected)}).data.mixture, expected);
  EXPECT_TRUE(parse(block, {"data.sources=[]"}).data.sources().empty());
  EXPECT_EQ(parse(kSmall).data.sources(), (std::vector<DataSource>{{"data", 1}}));

  const std::string form = "Give a list: [{path: DATASET, weight: NUMBER}, {path: DATASET, weight: NUMBER}].";
  const std::tuple<std::string, std::string, std::string> wrong[] = {
      {"a", "'a' is not a list of sources", form},
      {"{path: a}", "'{path: a}' is not a list of sources", form},
      {"[a, b]", "source 1 is not a map with a path and a weight", form},
      {"[{path: a}, {weight: 2}]", "source 2 has no path", form},
      {"[{path: a}, {path: ''}]", "source 2 has no path", form},
      {"[{path: [a]}]", "'path' of source 1 is not a single value", form},
      {"[{path: a, wieght: 2}]", "source 1 has the unknown key 'wieght'", "Did you mean weight?"},
      {"[{path: a, [b]: 2}]", "source 1 has the unknown key ''", "It may have path and weight."},
      {"[{path: a}, {path: b}, {path: ./a/}]", "sources 1 and 3 are both a",
       "Name it once, with the sum of the weights."},
  };
  for (const auto& [text, message, hint] : wrong)
    EXPECT_EQ(error_of_recipe("name: x", {"data.sources=" + text}),
              "command line: data.sources: " + message + " | " + hint);
  for (const char* weight : {"0", "-1", "nan", "inf", "1e16", "1e-16", "much", "''", "1 2"})
    EXPECT_NE(error_of_recipe(fmt::format("data: {{sources: [{{path: a, weight: {}}}]}}", weight))
                  .find("not a number from 1e-15 to 1e15"),
              std::string::npos)
        << weight;
  EXPECT_EQ(error_of_recipe(kSmall, {"data.sources=[{path: a}]"}),
            "command line: data.sources: data.path names the data to train on as well | Give one of the two: "
            "data.path= takes the path back.");
  EXPECT_NE(error_of_recipe("name: x", {"data.sources=[{path: a}"}).find("not readable as YAML"), std::string::npos);
}

TEST(Recipe, BoundsAreChecked) {
  const std::pair<const char*, const char*> cases[] = {
      {"name=a/b", "must be a plain name without '/'"},
      {"device_architecture=sm_90", "must be one of sm_80, sm_90a, gfx90a, gfx942"},
      {"optimizer.learning_rate=0", "must be above 0"},
      {"optimizer.beta1=1", "must be at least 0 and below 1"},
      {"optimizer.weight_decay=-1", "must not be negative"},
      {"train.batch_size=0", "must be at least 1"},
      {"train.micro_batch_size=3", "3 does not divide train.batch_size, 8"},
      {"checkpoint.keep=0", "must be at least 1"},
      {"log.interval=0", "must be at least 1"},
      {"log.trace_steps=0", "must be at least 1"},
      {"log.trace_steps=5", "has no effect without log.trace_from"},
      {"log.trace_from=-1", "must not be negative"},
      {"train.check_replicas=-1", "must not be negative"},
      {"sampling.temperature=-0.5", "must not be negative"},
      {"model.heads=5", "5 heads do not divide the width, 32"},
      {"model.kv_heads=2",
       "GQA belongs to gemma2, llama, mistral, mixtral, olmo2, olmoe, qwen2, qwen2_moe, qwen3 and qwen3_moe"},
      {"model.dropout=1", "must be at least 0 and below 1"},
      {"data.sequence_length=2000", "2000 is longer than model.max_sequence_length, 1024"},
      {"schedule.warmup_steps=2000", "a warm-up of 2000 steps does not fit the run's 1000"},
  };
  for (const auto& [override_text, expected] : cases) {
    const std::string key = std::string(override_text).substr(0, std::string(override_text).find('='));
    const std::string text = error_of_recipe(kSmall, {override_text});
    EXPECT_NE(text.find(expected), std::string::npos) << override_text << " gave: " << text;
    EXPECT_NE(text.find(key), std::string::npos) << override_text << " gave: " << text;
  }
}

TEST(Recipe, TheMeshMustDivideWhatItCuts) {
  const std::vector<std::string> llama = {"model.family=llama", "model.heads=8", "model.kv_heads=4",
                                          "model.ffn_width=96"};
  const auto error = [&](std::vector<std::string> overrides) {
    overrides.insert(overrides.begin(), llama.begin(), llama.end());
    return error_of_recipe(kSmall, overrides);
  };
  EXPECT_EQ(error({"mesh.dp=2", "mesh.fsdp=2", "mesh.tp=4", "mesh.cp=4"}), "no error");
  EXPECT_EQ(error({"mesh.dp=0"}), "command line: mesh.dp: must be at least 1 | ");
  EXPECT_EQ(error({"mesh.dp=4096", "mesh.fsdp=4096"}),
            "command line: mesh.fsdp: makes a mesh of more than 1048576 ranks | ");
  EXPECT_EQ(error({"mesh.tp=3"}),
            "command line: model.heads: 8 is not divisible by mesh.tp = 3 | The nearest that are: 6 and 9.");
  EXPECT_EQ(error({"mesh.tp=8"}),
            "command line: model.kv_heads: 4 is not divisible by mesh.tp = 8 | The nearest that is: 8.");
  EXPECT_EQ(error({"mesh.tp=4", "model.ffn_width=98"}),
            "command line: model.ffn_width: 98 is not divisible by mesh.tp = 4 | The nearest that are: 96 and 100.");
  EXPECT_EQ(error({"mesh.dp=2", "mesh.fsdp=3"}),
            "command line: mesh.fsdp=3: train.micro_batch_size: 8 is not divisible by mesh.dp x mesh.fsdp = 6 "
            "| The nearest that are: 6 and 12.");
  EXPECT_EQ(error({"mesh.cp=3"}),
            "command line: mesh.cp=3: data.sequence_length: 256 is not divisible by 2 x mesh.cp x "
            "mesh.tp = 6 | The nearest that are: 252 and 258.");
  EXPECT_EQ(error({"mesh.cp=2", "mesh.tp=2", "data.sequence_length=254"}),
            "command line: data.sequence_length: 254 is not divisible by mesh.cp x "
            "mesh.tp = 4 | The nearest that are: 252 and 256.");
  EXPECT_EQ(error({"mesh.cp=2", "data.sequence_length=254"}),
            "command line: data.sequence_length: 254 is not divisible by 2 x mesh.cp x "
            "mesh.tp = 4 | The nearest that are: 252 and 256.");
  EXPECT_EQ(error({"mesh.cp=2", "data.sequence_length=254", "train.mesh_independent=true"}), "no error");
  EXPECT_EQ(error({"mesh.ddp=2"}),
            "command line: mesh.ddp: unknown key | Here that is mesh.dp. causeway launch -n N starts the processes.");
}

TEST(Recipe, WhatStagesAddUpOtherwiseIsNotMeshIndependent) {
  EXPECT_EQ(error_of_recipe(kSmall, {"train.mesh_independent=true", "train.precision=bf16", "mesh.dp=2"}), "no error");
  EXPECT_EQ(error_of_recipe(kSmall, {"train.mesh_independent=true", "train.precision=f32", "mesh.pp=2",
                                     "model.family=llama", "model.tie_embeddings=false"}),
            "no error");
  EXPECT_EQ(
      error_of_recipe(kSmall, {"train.mesh_independent=true", "train.precision=bf16", "mesh.pp=2", "model.family=llama",
                               "model.tie_embeddings=false"}),
      "command line: train.mesh_independent: what stages (mesh.pp) send each other is f32 and not rounded as it is "
      "between layers of one device | Set train.precision=f32, or cut over another axis than mesh.pp.");
  EXPECT_EQ(
      error_of_recipe(kSmall, {"train.mesh_independent=true", "train.precision=f32", "mesh.pp=2", "model.family=llama",
                               "model.tie_embeddings=true"}),
      "command line: train.mesh_independent: the gradient of tied embeddings over stages (mesh.pp) is added up in "
      "another order than on one device | Set model.tie_embeddings=false where the family allows it, or cut over "
      "another axis than mesh.pp.");
}

TEST(Recipe, StagesHaveLayersAndMicroBatches) {
  const auto error = [&](std::vector<std::string> overrides) {
    overrides.insert(overrides.begin(), {"model.layers=6", "train.micro_batch_size=2"});
    return error_of_recipe(kSmall, overrides);
  };
  EXPECT_EQ(error({"mesh.pp=6"}), "no error");
  EXPECT_EQ(error({"mesh.pp=3", "train.pipeline_schedule=zero_bubble"}), "no error");
  EXPECT_EQ(error({"mesh.pp=2", "train.pipeline_schedule=interleaved", "train.pipeline_chunks=3"}), "no error");
  EXPECT_EQ(error({"mesh.pp=7"}),
            "command line: mesh.pp: 7 stages are more than the model has layers, 6 | Give at most 6.");
  EXPECT_EQ(error({"mesh.pp=0"}), "command line: mesh.pp: must be at least 1 | ");
  EXPECT_EQ(
      error({"mesh.pp=2", "train.pipeline_schedule=zerobubble"}),
      "command line: train.pipeline_schedule: 'zerobubble' is not one of 1f1b, interleaved, zero_bubble | Did you "
      "mean zero_bubble?");
  EXPECT_EQ(error({"mesh.pp=2", "train.pipeline_chunks=2"}),
            "command line: train.pipeline_chunks: 2 runs of layers on each stage are for "
            "train.pipeline_schedule=interleaved over several stages | ");
  EXPECT_EQ(error({"mesh.pp=2", "train.pipeline_schedule=interleaved"}),
            "command line: train.pipeline_schedule=interleaved: train.pipeline_chunks: the interleaved schedule is for "
            "several runs of layers on each stage | Give 2 or more, or choose train.pipeline_schedule=1f1b.");
  EXPECT_EQ(
      error({"mesh.pp=2", "train.pipeline_schedule=interleaved", "train.pipeline_chunks=4"}),
      "command line: train.pipeline_chunks: 2 stages with 4 runs of layers each are more than the model has layers, "
      "6 | Give at most 3.");
  EXPECT_EQ(error({"mesh.pp=3", "train.pipeline_schedule=interleaved", "train.pipeline_chunks=2"}),
            "command line: train.micro_batch_size: the interleaved schedule takes "
            "micro-batches by as many as there are stages, and 8 sequences of 2 make 4 of them for 3 stages | Give a "
            "multiple of 3 micro-batches, or choose another train.pipeline_schedule.");
  EXPECT_EQ(error({"train.pipeline_schedule=zero_bubble"}),
            "command line: train.pipeline_schedule: has no effect without stages (mesh.pp) | Delete the key, or choose "
            "what it belongs to.");
}

TEST(Recipe, MeshesHaveTheAxesThatHaveSeveralRanks) {
  EXPECT_TRUE(make_mesh({}).empty());
  EXPECT_EQ(make_mesh({.dp = 2, .fsdp = 3, .cp = 4, .tp = 5}).text(), "cp=4/5 tp=5/1a fsdp=3/20 dp=2/60k");
  EXPECT_EQ(make_mesh({.fsdp = 4}).text(), "fsdp=4/1");
  EXPECT_EQ(make_mesh({.dp = 2, .tp = 2, .pp = 3}).text(), "tp=2/1a dp=2/2k pp=3/4s");
  EXPECT_EQ(make_mesh({.dp = 2, .tp = 2}).text(), "tp=2/1a dp=2/2k");
}

TEST(Recipe, TargetsOfAnOverrideMayBeAList) {
  const auto targets = [](const std::string& text) {
    return parse("model:\n  from: " CAUSEWAY_SOURCE_DIR "/tests/fixtures/parity/llama\ndata:\n  sequence_length: 16\n",
                 {"lora.rank=2", "lora.targets=" + text})
        .adapter.targets;
  };
  EXPECT_EQ(targets("[q_proj, v_proj]"), targets("q_proj,v_proj"));
}

TEST(Recipe, APatternThatIsNoneIsToldBeforeARunBegins) {
  EXPECT_NE(error_of_recipe(kSmall, {"grpo.reward=regex", "grpo.reward_pattern=(a"})
                .find("grpo.reward_pattern: is no regular expression"),
            std::string::npos);
}

// A parser of hostile text ends with a recipe or an Error, whatever the text.
TEST(Recipe, DamagedTextIsAnErrorOrARecipe) {
  const std::string whole = recipe_text(parse(kSmall));
  uint64_t state = 1;
  const auto random = [&state](size_t bound) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>(state >> 33) % bound;
  };
  int errors = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text = whole;
    for (size_t edits = 1 + random(4); edits > 0; --edits) {
      const size_t at = random(text.size());
      switch (random(3)) {
        case 0:
          text[at] = static_cast<char>(random(256));
          break;
        case 1:
          text.erase(at, 1 + random(20));
          break;
        default:
          text.insert(at, std::string(1, "\n:-[]{}\"'&*!|>%@ \t0"[random(20)]));
      }
    }
    try {
      parse(text);
    } catch (const Error&) {
      ++errors;
    }
  }
  EXPECT_GT(errors, 1000);
}

// What model.from says of the model need not be said again, and cannot be said otherwise.
TEST(Recipe, TheModelOfADirectory) {
  const std::string directory = CAUSEWAY_SOURCE_DIR "/tests/fixtures/parity/llama";
  const std::string text = "model:\n  from: " + directory + "\ndata:\n  path: data\n  sequence_length: 16\n";
  const Recipe recipe = parse(text, {"model.dropout=0.1"});
  EXPECT_EQ(recipe.model.family, "llama");
  EXPECT_EQ(recipe.model.vocabulary_size, 96);
  EXPECT_EQ(recipe.model.kv_heads, 2);
  EXPECT_EQ(recipe.model.dropout, 0.1);
  EXPECT_EQ(recipe_text(parse(recipe_text(recipe))), recipe_text(recipe));
  EXPECT_EQ(parse(text, {"model.kv_heads=0", "model.layers=2", "model.sliding_window=0"}).model.kv_heads, 2);
  const std::string file = directory + "/config.json";
  const std::string hint = " | Delete the key: model.from says what the model is.";
  EXPECT_EQ(error_of_recipe(text, {"model.layers=3"}), "command line: model.layers: is 3 here and 2 in " + file + hint);
  EXPECT_EQ(error_of_recipe(text + "  token_bytes: 1\n", {"model.family=gpt2"}),
            "command line: model.family: is gpt2 here and llama in " + file + hint);
  EXPECT_EQ(error_of_recipe("model:\n  from: " + directory + "\n  rope_theta: 5e5\n"),
            "file.yaml: model.rope_theta: is 500000 here and 10000 in " + file + hint);
  EXPECT_EQ(error_of_recipe(kSmall, {"model.from=" + directory}).substr(0, 13), "command line:");
  // Longer than the model's: the directory says how long that is.
  EXPECT_NE(
      error_of_recipe("model:\n  from: " + directory + "\n").find("256 is longer than model.max_sequence_length, 64"),
      std::string::npos);
  EXPECT_EQ(error_of_recipe("model:\n  from: nowhere\n"),
            "file.yaml: model.from: there is no directory nowhere | Give the directory of a downloaded model, with "
            "config.json and safetensors files, or a run or checkpoint of this program. A run that has begun needs it "
            "no more, unless it trains adapters: causeway train RUN/recipe.yaml model.from= --resume auto.");
  EXPECT_NE(error_of_recipe("model:\n  from: " CAUSEWAY_SOURCE_DIR "/tests\n")
                .find("model.from: " CAUSEWAY_SOURCE_DIR "/tests/config.json: "),
            std::string::npos);
  TemporaryDirectory adapter;
  adapter.write("adapter_config.json", "{}");
  const std::string of_adapter = error_of_recipe("model:\n  from: " + adapter.path().string() + "\n");
  EXPECT_NE(of_adapter.find("model.from: " + adapter.path().string() + " holds an adapter of PEFT's and no model | "),
            std::string::npos)
      << of_adapter;
  EXPECT_NE(of_adapter.find("lora.from=" + adapter.path().string()), std::string::npos) << of_adapter;
  TemporaryDirectory checkpoint;
  checkpoint.write("manifest.json", "{}");
  EXPECT_NE(error_of_recipe("model:\n  from: " + checkpoint.path().string() + "\n")
                .find("file.yaml: model.from: " + (checkpoint / "manifest.json").string() + ": "),
            std::string::npos);
  // A recipe that a run saved stands without it.
  std::string saved = recipe_text(recipe);
  saved.replace(saved.find(directory), directory.size(), "nowhere");
  EXPECT_EQ(parse_saved_recipe(saved, "saved").model, recipe.model);
}

// docs/recipes.md has one row for each key: `key`, `default`, meaning.
TEST(Recipe, TheDocumentListsEveryKey) {
  const std::string document = read_text_file(CAUSEWAY_SOURCE_DIR "/docs/recipes.md");
  const std::regex row("\n\\| `([^`]+)` \\| `([^`]*)` \\| ([^|\n]*) \\|");
  std::vector<std::string> documented, expected;
  for (std::sregex_iterator match(document.begin(), document.end(), row), end; match != end; ++match)
    documented.push_back(fmt::format("| `{}` | `{}` | {} |", (*match)[1].str(), (*match)[2].str(), (*match)[3].str()));
  for (const RecipeKey& key : recipe_keys())
    expected.push_back(fmt::format("| `{}` | `{}` | {} |", key.key, key.default_value, key.meaning));
  EXPECT_EQ(documented, expected) << fmt::format("{}", fmt::join(expected, "\n"));
}

}  // namespace
}  // namespace causeway::train
