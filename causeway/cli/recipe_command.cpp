#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "causeway/base/console.h"
#include "causeway/base/error.h"
#include "causeway/base/field_words.h"
#include "causeway/cli/commands.h"
#include "causeway/cli/json_output.h"
#include "causeway/train/recipe/recipe.h"

namespace causeway::cli {
namespace {

struct RecipeCommandOptions {
  std::vector<std::string> keys;
  bool json = false;
};

// Those that were asked for: a key itself, or all of a section. All without a name.
std::vector<train::RecipeKey> chosen_keys(const std::vector<std::string>& names) {
  const std::vector<train::RecipeKey> all = train::recipe_keys();
  if (names.empty()) return all;
  std::vector<train::RecipeKey> chosen;
  for (const std::string& name : names) {
    const size_t before = chosen.size();
    for (const train::RecipeKey& key : all)
      if (key.key == name || key.key.starts_with(name + ".") ||
          std::ranges::find(key.aliases, name) != key.aliases.end())
        chosen.push_back(key);
    if (chosen.size() > before) continue;
    throw Error(ErrorKind::kNotFound, "there is no such key and no section of that name", name,
                name_hint(NameOf::kRecipeKey, name, train::recipe_key_names(), "`causeway recipe keys` lists all."));
  }
  return chosen;
}

void print_keys(const RecipeCommandOptions& options) {
  const std::vector<train::RecipeKey> keys = chosen_keys(options.keys);
  if (options.json) {
    nlohmann::ordered_json json = {{"keys", nlohmann::ordered_json::array()}};
    for (const train::RecipeKey& key : keys)
      json["keys"].push_back({{"key", key.key},
                              {"default", key.default_value},
                              {"type", key.type},
                              {"choices", key.choices},
                              {"aliases", key.aliases},
                              {"meaning", key.meaning}});
    return output_json(json);
  }
  for (const train::RecipeKey& key : keys)
    output("{}: {}\n    {}. {}{}\n", key.key, key.default_value,
           key.choices.empty() ? key.type : fmt::format("one of {}", fmt::join(key.choices, ", ")), key.meaning,
           key.aliases.empty() ? "" : fmt::format("; also {}, as config.json says it", fmt::join(key.aliases, ", ")));
}

}  // namespace

void add_recipe_command(CLI::App& program) {
  CLI::App* command = program.add_subcommand("recipe", "The keys that a recipe may have");
  command->require_subcommand(1);
  auto options = std::make_shared<RecipeCommandOptions>();
  CLI::App* keys = command->add_subcommand("keys", "Every key with its default, what it takes and what it means");
  keys->add_option("keys", options->keys, "Some of them: a key, or a section such as optimizer");
  keys->add_flag("--json", options->json, "Print them as JSON");
  keys->footer("Example: causeway recipe keys optimizer");
  keys->callback([options] { print_keys(*options); });
}

}  // namespace causeway::cli
