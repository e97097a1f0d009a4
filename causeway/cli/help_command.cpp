#include <memory>
#include <string>
#include <vector>

#include "causeway/cli/commands.h"

namespace causeway::cli {

// What it does is done before the words are parsed (arranged_words()): this is its place in lists and in --help.
void add_help_command(CLI::App& program) {
  auto words = std::make_shared<std::vector<std::string>>();
  CLI::App* command = program.add_subcommand("help", "Say what a command does and which options it has");
  command->add_option("command", *words, "The command, as train or data prepare; all without it");
  command->footer("Example: causeway help train");
  command->callback([words] {});
}

}  // namespace causeway::cli
