#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "causeway/base/error.h"
#include "causeway/cli/commands.h"

namespace causeway {
int command_status = 0;
}

int main(int argc, char** argv) {
  CLI::App program("Causeway trains large language models on a CPU, from recipes.", "causeway");
  program.footer("Begin with:  causeway doctor\nThen:        causeway train recipes/shakespeare.yaml");
  program.require_subcommand(1);
  program.set_version_flag("--version", CAUSEWAY_VERSION);
  causeway::add_train_command(program);
  causeway::add_generate_command(program);
  causeway::add_data_command(program);
  causeway::add_checkpoint_command(program);
  causeway::add_doctor_command(program);
  causeway::add_explain_command(program);
  causeway::add_completion_command(program);
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // The first word that is no command gets the nearest one suggested.
    if (error.get_exit_code() != 0 && argc > 1 && argv[1][0] != '-') {
      std::vector<std::string> names;
      for (const CLI::App* command : program.get_subcommands({})) names.push_back(command->get_name());
      if (std::find(names.begin(), names.end(), argv[1]) == names.end()) {
        const std::string nearest = causeway::nearest_name(argv[1], names);
        fmt::print(stderr, "causeway: '{}' is not a command.{}\nSee causeway --help.\n", argv[1],
                   nearest.empty() ? "" : fmt::format(" Did you mean {}?", nearest));
        return 2;
      }
    }
    return program.exit(error);
  } catch (const causeway::Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "internal error: {}\nThis is a fault of the program; please report it with the command line.\n",
               error.what());
    return 3;
  }
  return causeway::command_status;
}
