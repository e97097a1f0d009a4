#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "causeway/base/error.h"
#include "causeway/base/field_words.h"
#include "causeway/cli/commands.h"
#include "causeway/cli/launched_processes.h"
#include "causeway/cli/mpi_launcher.h"
#include "causeway/communicator/mpi_launch.h"

namespace causeway::cli {
namespace {

struct LaunchCommandOptions {
  int processes = 0;
  std::vector<std::string> words;
};

void run_launch(const LaunchCommandOptions& options, const CLI::App& program) {
  std::vector<std::string> names;
  for (const CLI::App* command : program.get_subcommands({})) names.push_back(command->get_name());
  std::erase(names, "launch");
  const std::string& name = options.words.front();
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    throw Error(ErrorKind::kInvalidArgument, fmt::format("'{}' is no command of causeway that can be launched", name),
                "launch",
                name_hint(NameOf::kCommand, name, names,
                          "What follows the number is a command of this program: causeway launch -n 2 -- train "
                          "recipe.yaml mesh.fsdp=2."));
  }
  if (const auto launch = find_mpi_launch())
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("this process is one of {} already ({})", launch->size, launch->variable), "launch",
                "Launch once, from outside.");
  const std::optional<MpiLauncher> launcher = find_mpi_launcher();
  if (!launcher)
    throw Error(ErrorKind::kNotFound, "no MPI is installed: neither mpirun nor mpiexec was found on PATH", "launch",
                "Install one: the package openmpi-bin or mpich (Debian), or openmpi or mpich; one process needs none: "
                "causeway train ...");
  std::error_code code;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", code);
  if (code)
    throw Error(ErrorKind::kIo, fmt::format("cannot find the program's own file: {}", code.message()), "launch");
  const std::vector<std::string> words =
      launch_arguments(*launcher, options.processes, ::geteuid() == 0, self.string(), options.words);
  command_status = run_launched_processes(*launcher, words, heeds_signals(options.words));
}

}  // namespace

void add_launch_command(CLI::App& program) {
  auto options = std::make_shared<LaunchCommandOptions>();
  CLI::App* command =
      program.add_subcommand("launch", "Start several processes of this program, through the MPI that is installed");
  command->add_option("-n,--processes", options->processes, "How many: as many as the recipe's mesh has ranks")
      ->required()
      ->check(CLI::Range(1, 1'000'000));
  command->add_option("command", options->words, "A command of this program with its arguments, after --")->required();
  command->prefix_command();
  command->footer(
      "The launcher is mpirun or mpiexec as PATH finds it; within an allocation of a scheduler it starts the "
      "processes\n"
      "there. Signals to this command reach the run as they reach one process: see causeway train --help; a second\n"
      "one stops everything at once. Exit status: the run's (4: stopped by a signal, and saved), or that of the first\n"
      "process that failed.\n"
      "Example: causeway launch -n 2 -- train shakespeare data.path=data/book mesh.fsdp=2");
  command->callback([options, command, &program] {
    // Options of the command to be launched, where they are not after a --.
    for (const std::string& word : command->remaining())
      if (word != "--") options->words.push_back(word);
    run_launch(*options, program);
  });
}

}  // namespace causeway::cli
