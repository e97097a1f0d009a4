#include <fmt/format.h>

#include <functional>
#include <memory>

#include "causeway/base/console.h"
#include "causeway/base/error.h"
#include "causeway/cli/commands.h"
#include "causeway/cli/recipe_argument.h"
#include "causeway/device/gpu_architecture.h"

namespace causeway::cli {
namespace {

bool takes_recipe(const CLI::App& app) { return app.get_option_no_throw("recipe") != nullptr; }

// Calls `visit` with each command and the words that lead to it ("data prepare"), the program itself first.
void for_each_command(const CLI::App& app, const std::string& path,
                      const std::function<void(const CLI::App&, const std::string&)>& visit) {
  visit(app, path);
  for (const CLI::App* sub : app.get_subcommands({}))
    for_each_command(*sub, path.empty() ? sub->get_name() : path + " " + sub->get_name(), visit);
}

// What may follow: commands, options, and where a recipe is taken those that are shipped, and its keys.
std::string words_after(const CLI::App& app) {
  std::string words;
  for (const CLI::App* sub : app.get_subcommands({})) words += sub->get_name() + " ";
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) words += "--" + name + " ";
  if (!takes_recipe(app)) return words;
  for (const std::string& name : shipped_recipe_names()) words += name + " ";
  for (const RecipeKey& key : recipe_keys()) words += key.key + "= ";
  return words;
}

std::string value_cases() {
  std::string text;
  for (const RecipeKey& key : recipe_keys()) {
    std::vector<std::string> values = key.choices;
    if (key.key == "device") values = {"auto", "cpu", "cuda", "hip", "emulator:sm_90a", "emulator:gfx942"};
    if (key.key == "device_architecture")
      for (const GpuArchitecture& architecture : gpu_architectures()) values.emplace_back(architecture.processor);
    if (!values.empty()) text += fmt::format("      {}) words='{}' ;;\n", key.key, fmt::join(values, " "));
  }
  return text;
}

// Bash splits words at '=' (COMP_WORDBREAKS), zsh does not: a recipe's key=value comes as three words or as one.
std::string bash_script(const CLI::App& program) {
  std::string paths, words, recipe_paths;
  for_each_command(program, "", [&](const CLI::App& app, const std::string& path) {
    if (!path.empty()) paths += fmt::format("{}'{}'", paths.empty() ? "" : "|", path);
    if (takes_recipe(app)) recipe_paths += fmt::format("{}'{}'", recipe_paths.empty() ? "" : "|", path);
    words += fmt::format("    '{}') words='{}' ;;\n", path, words_after(app));
  });
  return fmt::format(R"(_causeway() {{
  local words='' path='' word key='' prefix='' current="${{COMP_WORDS[COMP_CWORD]}}"
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "${{path:+$path }}$word" in {0}) path="${{path:+$path }}$word" ;; esac
  done
  case $path in {1})
    case $current in
      -*) ;;
      =) key="${{COMP_WORDS[COMP_CWORD-1]}}"; current='' ;;
      *=*) key="${{current%%=*}}"; prefix="$key="; current="${{current#*=}}" ;;
      *) if [ "${{COMP_WORDS[COMP_CWORD-1]}}" = '=' ]; then key="${{COMP_WORDS[COMP_CWORD-2]}}"; fi ;;
    esac ;;
  esac
  if [ -n "$key" ]; then
    case $key in
{2}      data.path|run_directory|model.from) COMPREPLY=($(compgen -P "$prefix" -d -- "$current")); return ;;
    esac
    COMPREPLY=($(compgen -P "$prefix" -W "$words" -- "$current"))
    return
  fi
  case $path in
{3}  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  case $path in {1})
    COMPREPLY+=($(compgen -f -X '!*.yaml' -- "$current") $(compgen -d -S / -- "$current")) ;;
  esac
  case "${{COMPREPLY[*]}}" in *=|*/) compopt -o nospace 2> /dev/null ;; esac
}}
complete -o default -F _causeway causeway
)",
                     paths, recipe_paths, value_cases(), words);
}

}  // namespace

void add_completion_command(CLI::App& program) {
  auto shell = std::make_shared<std::string>("bash");
  CLI::App* command = program.add_subcommand("completion", "Print a shell completion script");
  command->add_option("shell", *shell, "bash or zsh")->capture_default_str();
  command->footer("Example: source <(causeway completion bash)");
  command->callback([shell, &program] {
    if (*shell == "bash") {
      write_output(bash_script(program));
    } else if (*shell == "zsh") {
      output("autoload -U +X bashcompinit && bashcompinit\n{}", bash_script(program));
    } else {
      throw Error(ErrorKind::kInvalidArgument, fmt::format("no completion for '{}'", *shell), "completion",
                  "Use bash or zsh.");
    }
  });
}

}  // namespace causeway::cli
