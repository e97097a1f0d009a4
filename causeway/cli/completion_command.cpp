#include <fmt/format.h>

#include <memory>

#include "causeway/base/error.h"
#include "causeway/cli/commands.h"

namespace causeway {
namespace {

// "train) words='--resume --json'" for each command.
std::string cases(const CLI::App& app, const std::string& prefix) {
  std::string text;
  std::string words;
  for (const CLI::App* sub : app.get_subcommands({})) words += sub->get_name() + " ";
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) words += "--" + name + " ";
  text += fmt::format("    '{}') words='{}' ;;\n", prefix, words);
  for (const CLI::App* sub : app.get_subcommands({}))
    text += cases(*sub, prefix.empty() ? sub->get_name() : prefix + " " + sub->get_name());
  return text;
}

std::string bash_script(const CLI::App& program) {
  return "_causeway() {\n  local words='' path='' word\n"
         "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
         "    case $word in -*|*=*|*/*|*.*) ;; *) path=\"${path:+$path }$word\" ;; esac\n  done\n"
         "  case $path in\n" +
         cases(program, "") +
         "  esac\n  COMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\") "
         "$(compgen -f -- \"${COMP_WORDS[COMP_CWORD]}\"))\n}\ncomplete -o filenames -F _causeway causeway\n";
}

}  // namespace

void add_completion_command(CLI::App& program) {
  auto shell = std::make_shared<std::string>("bash");
  CLI::App* command = program.add_subcommand("completion", "Print a shell completion script");
  command->add_option("shell", *shell, "bash or zsh")->capture_default_str();
  command->footer("Example: source <(causeway completion bash)");
  command->callback([shell, &program] {
    if (*shell == "bash") {
      fmt::print("{}", bash_script(program));
    } else if (*shell == "zsh") {
      fmt::print("autoload -U +X bashcompinit && bashcompinit\n{}", bash_script(program));
    } else {
      throw Error(ErrorKind::kInvalidArgument, fmt::format("no completion for '{}'", *shell), "completion",
                  "Use bash or zsh.");
    }
  });
}

}  // namespace causeway
