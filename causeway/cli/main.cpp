#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/cli/commands.h"

namespace causeway {

int command_status = 0;

namespace {

std::string suggestion(const std::string& name, const std::vector<std::string>& names) {
  const std::string nearest = nearest_name(name, names);
  return nearest.empty() ? "" : fmt::format(" Did you mean {}?", nearest);
}

// What is wrong with a command line that could not be parsed, with the nearest name where a command or option is
// unknown.
std::string usage_error(const CLI::App& program, const std::vector<std::string>& words, const CLI::ParseError& error) {
  const CLI::App* command = &program;
  std::string path = program.get_name(), what;
  for (const std::string& word : words) {
    std::vector<std::string> commands, options;
    for (const CLI::App* sub : command->get_subcommands({})) commands.push_back(sub->get_name());
    for (const CLI::Option* option : command->get_options())
      for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
    const std::string option = word.substr(0, word.find('='));
    if (word.starts_with("--")) {
      if (what.empty() && std::find(options.begin(), options.end(), option) == options.end())
        what = fmt::format("{} has no option {}.{}", path, option, suggestion(option, options));
    } else if (std::find(commands.begin(), commands.end(), word) != commands.end()) {
      command = command->get_subcommand(word);
      path += " " + word;
    } else if (!commands.empty() && what.empty() && !word.starts_with("-")) {
      what = fmt::format("'{}' is not a command of {}.{}", word, path, suggestion(word, commands));
    }
  }
  return fmt::format("error: {}\n  See {} --help.\n", what.empty() ? error.what() : what, path);
}

}  // namespace
}  // namespace causeway

int main(int argc, char** argv) {
  CLI::App program("Causeway trains large language models on CPUs and GPUs, from recipes.", "causeway");
  program.footer("Begin with:  causeway doctor\nThen:        causeway train recipes/shakespeare.yaml");
  program.require_subcommand(1);
  program.set_version_flag("--version", CAUSEWAY_VERSION);
  causeway::add_train_command(program);
  causeway::add_generate_command(program);
  causeway::add_data_command(program);
  causeway::add_checkpoint_command(program);
  causeway::add_doctor_command(program);
  causeway::add_cache_command(program);
  causeway::add_explain_command(program);
  causeway::add_bench_command(program);
  causeway::add_completion_command(program);
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return program.exit(error);  // --help and --version
    fmt::print(stderr, "{}", causeway::usage_error(program, std::vector<std::string>(argv + 1, argv + argc), error));
    return 2;
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
