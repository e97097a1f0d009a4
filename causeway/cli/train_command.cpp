#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "causeway/base/console.h"
#include "causeway/base/error.h"
#include "causeway/bench/environment.h"
#include "causeway/cli/commands.h"
#include "causeway/cli/json_output.h"
#include "causeway/cli/recipe_argument.h"
#include "causeway/train/trainer.h"

namespace causeway::cli {
namespace {

struct TrainCommandOptions {
  std::string recipe;
  std::vector<std::string> overrides;
  std::string resume;
  bool json = false;
  bool quiet = false;
};

// One word of a POSIX shell's command line.
std::string shell_quoted(const std::string& word) {
  const std::string plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

void train_as_asked(const TrainCommandOptions& options) {
  TrainOptions train_options;
  train_options.quiet = options.quiet;
  train_options.version = fmt::format("{} ({})", CAUSEWAY_VERSION, program_commit());
  train_options.resume = parse_resume(options.resume);
  const Recipe recipe = load_recipe_argument(options.recipe, options.overrides);
  const TrainResult result = train::train(recipe, train_options);
  // A launcher that sees another rank end by a status that is not 0 may end this one while it still speaks.
  if (result.rank != 0) return;
  if (result.interrupted) command_status = kInterruptedStatus;
  if (options.json) {
    nlohmann::ordered_json json = {{"step", result.step},
                                   {"loss", result.last_loss},
                                   {"validation_loss", nullptr},
                                   {"checkpoint", result.checkpoint.string()},
                                   {"interrupted", result.interrupted},
                                   {"skipped_steps", result.skipped_steps}};
    if (result.validation_loss) json["validation_loss"] = *result.validation_loss;
    output_json(json);
    return;
  }
  if (options.quiet) return;
  if (result.interrupted) {
    std::string again = "causeway train " + shell_quoted(options.recipe);
    for (const std::string& text : options.overrides) again += " " + shell_quoted(text);
    const std::string saved =
        result.checkpoint.empty() ? ", where there is nothing to save" : "; saved " + result.checkpoint.string();
    output("stopped at step {} of {}{}\nContinue with: {} --resume auto\n", result.step, result.total_steps, saved,
           again);
    return;
  }
  if (result.checkpoint.empty()) {
    output("nothing to do: the run is at step {} of {}\n", result.step, result.total_steps);
    return;
  }
  output("finished {} steps; saved {}\n", result.step, result.checkpoint.string());
  if (result.validation_loss)
    output("validation loss: {:.4f} {}\n", *result.validation_loss,
           recipe.preference.is_used() ? "per preference pair" : "nats per token");
}

}  // namespace

void add_train_command(CLI::App& program) {
  auto options = std::make_shared<TrainCommandOptions>();
  CLI::App* command = program.add_subcommand("train", "Train a model from a recipe");
  command
      ->add_option("recipe", options->recipe,
                   "The recipe: a YAML file, or the name of one that the program brings along")
      ->required();
  command->add_option("overrides", options->overrides, "Recipe keys to change, as key=value");
  command->add_option("--resume", options->resume,
                      "auto: continue from the run's newest intact checkpoint, if it has one; STEP: from that of its "
                      "checkpoints; PATH: from any checkpoint");
  command->add_flag("--json", options->json, "Print the result as JSON");
  command->add_flag("--quiet", options->quiet, "No progress and no samples");
  command->footer(
      "Ctrl-C, SIGTERM and SIGHUP save and stop (a second Ctrl-C stops at once); SIGUSR1 saves and goes on.\n"
      "Exit status: 0 finished, 1 error, 2 wrong usage, 3 fault of the program, 4 stopped by a signal with its "
      "progress\n"
      "saved, 130 stopped at once by a second Ctrl-C.\n"
      "Several processes, as many as the recipe's mesh has ranks: causeway launch -n 2 -- train RECIPE mesh.fsdp=2\n"
      "Example: causeway train recipes/shakespeare.yaml train.steps=500 optimizer.learning_rate=1e-3");
  command->callback([options] { train_as_asked(*options); });
}

}  // namespace causeway::cli
