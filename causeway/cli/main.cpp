#include <algorithm>
#include <chrono>
#include <csignal>
#include <exception>
#include <new>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "causeway/base/console.h"
#include "causeway/base/crash_report.h"
#include "causeway/base/error.h"
#include "causeway/bench/environment.h"
#include "causeway/cli/command_line.h"
#include "causeway/cli/commands.h"
#include "causeway/cli/json_output.h"
#include "causeway/communicator/mpi_launch.h"
#include "causeway/train/ranks.h"
#include "causeway/train/signals.h"

namespace causeway::cli {

int command_status = 0;

namespace {

constexpr int kFailure = 1, kUsage = 2, kFault = 3;

// What one process of several finds on its own, others most often find as well: a misspelt key, a missing file. The
// first one says it at once, and its launcher ends the others; those that are still there then had a reason of their
// own.
std::string leave_to_the_first_process() {
  const std::optional<MpiLaunch> launch = find_mpi_launch();
  if (!launch || launch->rank == 0) return "";
  std::this_thread::sleep_for(std::chrono::seconds(2));
  return fmt::format("rank {}: ", launch->rank);
}

// The program for people; with --json also an object on standard output, for the program that reads it.
int report(const Error& error, std::string_view kind, int status, bool as_json) {
  notice("{}{}: {}\n", leave_to_the_first_process(), status == kFault ? "internal error" : "error", error.what());
  if (!as_json) return status;
  const nlohmann::ordered_json json = {{"error",
                                        {{"kind", kind},
                                         {"message", error.message()},
                                         {"where", error.where()},
                                         {"hint", error.hint()},
                                         {"status", status}}}};
  output_json(json);
  return status;
}

int run(int argc, char** argv) {
  CLI::App program("Causeway trains large language models on CPUs and GPUs, from recipes.", "causeway");
  program.footer(
      "Begin with:  causeway doctor\n"
      "Then, on any text of your own:\n"
      "  causeway data prepare book.txt --output data/book --validation-fraction 0.1\n"
      "  causeway train shakespeare data.path=data/book name=book train.steps=100\n"
      "  causeway generate runs/book --prompt \"Once\"\n"
      "A recipe is a YAML file, or the name of one that the program brings along, such as shakespeare.");
  program.require_subcommand(1);
  program.set_version_flag("--version", CAUSEWAY_VERSION);
  add_train_command(program);
  add_launch_command(program);
  add_generate_command(program);
  add_evaluate_command(program);
  add_import_command(program);
  add_export_command(program);
  add_adapters_command(program);
  add_data_command(program);
  add_tokenizer_command(program);
  add_checkpoint_command(program);
  add_doctor_command(program);
  add_cache_command(program);
  add_explain_command(program);
  add_plan_command(program);
  add_bench_command(program);
  add_recipe_command(program);
  add_completion_command(program);
  add_help_command(program);
  const std::vector<std::string> words = arranged_words(program, {argv + std::min(argc, 1), argv + argc});
  const bool as_json = std::find(words.begin(), words.end(), "--json") != words.end();
  try {
    program.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help and --version
      std::ostringstream text;
      program.exit(error, text, text);
      write_output(text.str());
      return 0;
    }
    return report(usage_error(program, words, error), "usage", kUsage, as_json);
  } catch (const Error& error) {
    return report(error, error_kind_name(error.kind()), kFailure, as_json);
  } catch (const std::bad_alloc&) {
    return report(Error(ErrorKind::kResource, "this machine's memory does not suffice", "",
                        "Choose a smaller model, batch or input, or a machine with more memory."),
                  error_kind_name(ErrorKind::kResource), kFailure, as_json);
  } catch (const SaidElsewhere&) {
    return kFailure;
  } catch (const std::exception& error) {
    return report(Error(ErrorKind::kUnsupported, error.what(), "",
                        "This is a fault of the program; please report it with the command line."),
                  "internal", kFault, as_json);
  }
  return command_status;
}

}  // namespace
}  // namespace causeway::cli

int main(int argc, char** argv) {
  // Means something to a training run alone, and ends no other command.
  causeway::train::SignalWatch::remember_save_requests();
  causeway::prepare_standard_streams();
  causeway::report_crashes(
      fmt::format("causeway {} ({})", causeway::bench::program_version(), causeway::bench::program_commit()));
  // A file larger than the process may write is an error of the write, which says so and leaves nothing behind.
  std::signal(SIGXFSZ, SIG_IGN);
  const int status = causeway::cli::run(argc, argv);
  try {
    causeway::flush_output();
  } catch (const causeway::Error& error) {
    // With an error of its own the command has said what matters.
    if (status == 0) causeway::notice("error: {}\n", error.what());
    return status == 0 ? 1 : status;
  }
  return status;
}
