// How a command line may be said: help, options before a subcommand, words of other programs, keys of a recipe.
#include <gmock/gmock.h>

#include "causeway/base/file.h"
#include "tests/cli/program_under_test.h"

namespace causeway::cli {
namespace {

using CommandWordsTest = CliTest;
using testing::HasSubstr;

TEST_F(CommandWordsTest, HelpIsACommandToo) {
  for (const std::vector<std::string>& path :
       std::vector<std::vector<std::string>>{{}, {"train"}, {"data", "prepare"}, {"bench", "list"}}) {
    std::vector<std::string> asked = {"help"}, given = path;
    asked.insert(asked.end(), path.begin(), path.end());
    given.emplace_back("--help");
    const Outcome outcome = run(asked);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.out, run(given).out);
  }
  expect_failure({"help", "trian"}, 2, {"'trian' is not a command of causeway. Did you mean train?"});
  expect_failure({"help", "data", "none", "more"}, 2, {"'none' is not a command of causeway data."});
  // Nothing is run.
  EXPECT_EQ(run({"help", "tokenizer", "encode", "bytes", "hi"}).out, run({"tokenizer", "encode", "--help"}).out);
  EXPECT_EQ(run({"help", "bench", "attention"}).out, run({"bench", "attention", "--help"}).out);
}

TEST_F(CommandWordsTest, EveryKeyOfARecipeIsListed) {
  const nlohmann::json all = run_json({"recipe", "keys", "--json"});
  const std::string document = read_text_file(CAUSEWAY_SOURCE_DIR "/docs/recipes.md");
  for (const nlohmann::json& key : all["keys"])
    EXPECT_THAT(document, HasSubstr("| `" + key["key"].get<std::string>() + "` | `" +
                                    key["default"].get<std::string>() + "` | " + key["meaning"].get<std::string>()));
  const Outcome some = run({"recipe", "keys", "optimizer", "train.precision"});
  EXPECT_EQ(some.out.find("optimizer.name: adamw\n    one of adamw"), 0u);
  EXPECT_THAT(some.out, HasSubstr("optimizer.learning_rate: 0.0003\n    a number. peak learning rate\n"));
  EXPECT_THAT(some.out, HasSubstr("train.precision: \"bf16\"\n    one of bf16, fp8, fp8_block, tf32, f32. "));
  EXPECT_EQ(some.out.find("train.steps"), std::string::npos);
  const std::string width =
      "model.width: 256\n    an integer. size of the residual stream; also model.hidden_size, as "
      "config.json says it\n";
  EXPECT_EQ(run({"recipe", "keys", "model.width"}).out, width);
  EXPECT_EQ(run({"recipe", "keys", "model.hidden_size"}).out, width);
  expect_failure({"recipe", "keys", "hidden_size"}, 1, {"Did you mean model.hidden_size?"});
  expect_failure({"recipe", "keys", "lr"}, 1, {"lr: there is no such key", "Here that is optimizer.learning_rate."});
}

// Nothing was measured yet.
TEST_F(CommandWordsTest, OptionsMayStandBeforeTheSubcommand) {
  EXPECT_EQ(run({"bench", "--store", "none.sqlite", "list"}).out, run({"bench", "list", "--store", "none.sqlite"}).out);
  EXPECT_THAT(run({"bench", "--store=none.sqlite", "list"}).out, HasSubstr("none.sqlite does not exist"));
  expect_failure({"bench", "--store", "none.sqlite", "report"}, 1, {"none.sqlite: there are no results yet"});
  // What the subcommand does not know is not ignored.
  expect_failure({"bench", "--samples", "9", "list"}, 2, {"causeway bench list has no option --samples."});
  EXPECT_EQ(run({"data", "--json", "inspect", "nowhere"}).out, run({"data", "inspect", "nowhere", "--json"}).out);
}

TEST_F(CommandWordsTest, WordsOfOtherProgramsLeadToOurs) {
  expect_failure({"finetune"}, 2, {"'finetune' is not a command of causeway. Here that is train."});
  expect_failure({"version"}, 2, {"'version' is not a command of causeway. causeway --version prints it."});
  // Commands of another level are not led to.
  const Outcome below = run({"checkpoint", "validate", "x"});
  EXPECT_THAT(below.err, HasSubstr("'validate' is not a command of causeway checkpoint."));
  EXPECT_EQ(below.err.find("Here that is"), std::string::npos) << below.err;
  expect_failure({"train", "tiny.yaml", "--lr", "1e-3"}, 2,
                 {"causeway train has no option --lr. Here that is optimizer.learning_rate. A recipe's keys are given "
                  "as key=value, after the recipe."});
  expect_failure({"train", "tiny.yaml", "--train.steps", "3"}, 2,
                 {"A recipe's keys are given without dashes: train.steps=VALUE."});
  expect_failure({"train", "tiny.yaml", "--model.hidden_size", "64"}, 2,
                 {"A recipe's keys are given without dashes: model.hidden_size=VALUE."});
  expect_failure({"generate", "run", "--max-new-tokens", "3"}, 2,
                 {"causeway generate has no option --max-new-tokens. Here that is --tokens."});
  expect_failure({"train", "tiny.yaml", "device=gpu"}, 1,
                 {"there is no device 'gpu'", "Here that is cuda, hip or auto."});
  expect_failure({"train", "tiny.yaml", "wandb=true"}, 1, {"No service is told of a run"});
}

TEST_F(CommandWordsTest, PlansSayWhatAnAxisLeavesWhole) {
  const Outcome outcome = run({"plan", "tiny.yaml", "mesh.fsdp=3", "train.batch_size=3", "--hardware", "h200"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("mesh.fsdp=3 cuts no weight: "));
  EXPECT_THAT(outcome.out, HasSubstr("model.layers.*."));
  EXPECT_EQ(run({"plan", "tiny.yaml", "mesh.fsdp=2", "--hardware", "h200"}).out.find("stay whole"), std::string::npos);
}

}  // namespace
}  // namespace causeway::cli
