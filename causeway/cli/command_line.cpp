#include "causeway/cli/command_line.h"

#include <fmt/format.h>

#include <algorithm>

#include "causeway/base/field_words.h"
#include "causeway/cli/recipe_argument.h"

namespace causeway::cli {
namespace {

bool is_option(const std::string& word) { return word.size() > 1 && word.front() == '-' && word != "--"; }

// "--store" of "--store=X", "-n" of "-n4".
std::string option_name(const std::string& word) {
  if (!word.starts_with("--")) return word.substr(0, 2);
  return word.substr(0, word.find('='));
}

// Of the command, or else of a command below it. Null where none has it.
const CLI::Option* find_option(const CLI::App& command, const std::string& name) {
  if (const CLI::Option* option = command.get_option_no_throw(name)) return option;
  for (const CLI::App* sub : command.get_subcommands({}))
    if (const CLI::Option* option = find_option(*sub, name)) return option;
  return nullptr;
}

const CLI::App* find_subcommand(const CLI::App& command, const std::string& name) {
  for (const CLI::App* sub : command.get_subcommands({}))
    if (sub->get_name() == name) return sub;
  return nullptr;
}

// How many of the words from `at` on are an option and its values.
size_t words_of_option(const CLI::App& command, const std::vector<std::string>& words, size_t at) {
  const std::string name = option_name(words[at]);
  const CLI::Option* option = find_option(command, name);
  if (option == nullptr || words[at] != name) return 1;
  size_t values = 0;
  const auto least = static_cast<size_t>(option->get_items_expected_min()),
             most = static_cast<size_t>(option->get_items_expected_max());
  while (values < most && at + values + 1 < words.size()) {
    const std::string& next = words[at + values + 1];
    if (values >= least && (is_option(next) || find_subcommand(command, next) != nullptr)) break;
    ++values;
  }
  return 1 + values;
}

// With a space before it.
std::string suggestion(NameOf what, const std::string& name, const std::vector<std::string>& names) {
  const std::string hint = name_hint(what, name, names);
  return hint.empty() ? "" : " " + hint;
}

// Of an option that the command does not have: one that it has, or the recipe's key that was meant.
std::string option_hint(const CLI::App& command, const std::string& option, const std::vector<std::string>& options) {
  if (std::string hint = suggestion(NameOf::kOption, option, options); !hint.empty()) return hint;
  if (command.get_option_no_throw("overrides") == nullptr) return "";
  const std::vector<std::string> keys = recipe_key_names();
  if (std::find(keys.begin(), keys.end(), option) != keys.end())
    return fmt::format(" A recipe's keys are given without dashes: {}=VALUE.", option);
  const std::string hint = suggestion(NameOf::kRecipeKey, option, keys);
  return hint.empty() ? "" : hint + " A recipe's keys are given as key=value, after the recipe.";
}

}  // namespace

std::vector<std::string> arranged_words(const CLI::App& program, std::vector<std::string> words) {
  if (!words.empty() && words.front() == "help" && (words.size() == 1 || !is_option(words[1]))) {
    words.erase(words.begin());
    const CLI::App* asked = &program;
    size_t known = 0;
    while (known < words.size()) {
      const CLI::App* sub = find_subcommand(*asked, words[known]);
      if (sub == nullptr) break;
      asked = sub;
      ++known;
    }
    // An unknown command is an error, not the help of the command above it. What follows a command is not for it now:
    // nothing is run.
    if (known < words.size() && !words[known].starts_with('-') && asked->get_require_subcommand_min() > 0) {
      words.resize(known + 1);
    } else {
      words.resize(known);
      words.emplace_back("--help");
    }
  }
  const CLI::App* command = &program;
  std::vector<std::string> arranged, waiting;  // options that came before the command they may belong to
  size_t at = 0;
  while (at < words.size() && words[at] != "--") {
    if (is_option(words[at])) {
      const size_t count = words_of_option(*command, words, at);
      for (size_t i = 0; i < count; ++i) waiting.push_back(words[at + i]);
      at += count;
      continue;
    }
    const CLI::App* sub = find_subcommand(*command, words[at]);
    if (sub == nullptr) break;
    arranged.push_back(words[at++]);
    command = sub;
  }
  arranged.insert(arranged.end(), waiting.begin(), waiting.end());
  arranged.insert(arranged.end(), words.begin() + static_cast<std::ptrdiff_t>(at), words.end());
  return arranged;
}

Error usage_error(const CLI::App& program, const std::vector<std::string>& words, const CLI::ParseError& error) {
  const CLI::App* command = &program;
  std::string path = program.get_name(), what;
  for (const std::string& word : words) {
    std::vector<std::string> commands, options;
    for (const CLI::App* sub : command->get_subcommands({})) commands.push_back(sub->get_name());
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) options.push_back(name);
      for (const std::string& name : option->get_snames()) options.push_back(name);
    }
    if (word.starts_with("--")) {
      const std::string option = option_name(word).substr(2);
      if (what.empty() && std::find(options.begin(), options.end(), option) == options.end())
        what = fmt::format("{} has no option --{}.{}", path, option, option_hint(*command, option, options));
    } else if (std::find(commands.begin(), commands.end(), word) != commands.end()) {
      command = command->get_subcommand(word);
      path += " " + word;
    } else if (!commands.empty() && what.empty() && !word.starts_with("-")) {
      what = fmt::format("'{}' is not a command of {}.{}", word, path, suggestion(NameOf::kCommand, word, commands));
    }
  }
  return Error(ErrorKind::kInvalidArgument, what.empty() ? error.what() : what, "",
               fmt::format("See {} --help.", path));
}

}  // namespace causeway::cli
