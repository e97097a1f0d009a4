#include "causeway/train/recipe.h"

#include <gtest/gtest.h>

#include <regex>

#include "causeway/base/error.h"
#include "causeway/base/file.h"

namespace causeway {
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
std::string error_of(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
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
  EXPECT_EQ(recipe.model.family, ModelFamily::kGpt2);
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

TEST(Recipe, PrintedItReadsBackTheSame) {
  Recipe recipe = parse(kSmall, {"sampling.prompt=\"two\nlines: {}\"", "optimizer.learning_rate=0.1",
                                 "optimizer.epsilon=1.2345678901234567e-9", "schedule.kind=wsd",
                                 "schedule.decay_steps=10", "log.tensorboard=false"});
  const Recipe again = parse(recipe_text(recipe));
  EXPECT_EQ(recipe_text(again), recipe_text(recipe));
  EXPECT_EQ(again.model, recipe.model);
  EXPECT_EQ(again.sampling.prompt, "\"two\nlines: {}\"");
  EXPECT_EQ(again.optimizer.epsilon, 1.2345678901234567e-9);
  EXPECT_FALSE(again.log.tensorboard);
}

TEST(Recipe, AnEmptyFileIsTheDefaults) {
  EXPECT_EQ(parse("").train.steps, Recipe().train.steps);
  EXPECT_EQ(parse("").name, "run");
}

TEST(Recipe, UnknownKeysAreAnsweredWithTheNearest) {
  EXPECT_EQ(error_of("modle:\n  heads: 2\n"), "file.yaml: modle.heads: unknown key | Did you mean model.heads?");
  EXPECT_EQ(error_of("heads: 2\n"), "file.yaml: heads: unknown key | Did you mean model.heads?");
  EXPECT_EQ(error_of("nothing_of_the_kind: 2\n"),
            "file.yaml: nothing_of_the_kind: unknown key | docs/recipes.md lists all keys.");
  EXPECT_EQ(error_of(kSmall, {"train.stesp=3"}), "command line: train.stesp: unknown key | Did you mean train.steps?");
}

TEST(Recipe, ValuesOfAnotherKindAreErrors) {
  EXPECT_EQ(error_of("train:\n  steps: 1.5\n"), "file.yaml: train.steps: '1.5' is not an integer | ");
  EXPECT_EQ(error_of("train:\n  steps: 99999999999999999999\n"),
            "file.yaml: train.steps: '99999999999999999999' is not an integer | ");
  EXPECT_EQ(error_of("train:\n  steps: [1, 2]\n"), "file.yaml: train.steps: must be a single value | ");
  EXPECT_EQ(error_of("train: 3\n"), "file.yaml: train: unknown key | docs/recipes.md lists all keys.");
  EXPECT_EQ(error_of("optimizer:\n  beta1: fast\n"), "file.yaml: optimizer.beta1: 'fast' is not a number | ");
  EXPECT_EQ(error_of("data:\n  document_mask: 1\n"), "file.yaml: data.document_mask: '1' is not true or false | ");
}

TEST(Recipe, BoundsAreChecked) {
  const std::pair<const char*, const char*> cases[] = {
      {"name=a/b", "must be a plain name without '/'"},
      {"optimizer.learning_rate=0", "must be above 0"},
      {"optimizer.beta1=1", "must be at least 0 and below 1"},
      {"optimizer.weight_decay=-1", "must not be negative"},
      {"train.batch_size=0", "must be at least 1"},
      {"train.micro_batch_size=3", "3 does not divide train.batch_size, 8"},
      {"checkpoint.keep=0", "must be at least 1"},
      {"log.interval=0", "must be at least 1"},
      {"sampling.temperature=-0.5", "must not be negative"},
      {"model.heads=5", "5 heads do not divide the width, 32"},
      {"model.kv_heads=2", "grouped queries belong to llama and mistral"},
      {"model.dropout=1", "must be at least 0 and below 1"},
      {"data.sequence_length=2000", "2000 is longer than model.max_sequence_length, 1024"},
      {"schedule.warmup_steps=2000", "a warm-up of 2000 steps does not fit the run's 1000"},
  };
  for (const auto& [override_text, expected] : cases) {
    const std::string key = std::string(override_text).substr(0, std::string(override_text).find('='));
    const std::string text = error_of(kSmall, {override_text});
    EXPECT_NE(text.find(expected), std::string::npos) << override_text << " gave: " << text;
    EXPECT_NE(text.find(key), std::string::npos) << override_text << " gave: " << text;
  }
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
}  // namespace causeway
