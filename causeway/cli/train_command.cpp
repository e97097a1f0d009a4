#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "causeway/base/console.h"
#include "causeway/base/error.h"
#include "causeway/cli/commands.h"
#include "causeway/cli/recipe_argument.h"
#include "causeway/train/trainer.h"

namespace causeway {
namespace {

struct Options {
  std::string recipe;
  std::vector<std::string> overrides;
  std::string resume;
  bool json = false;
  bool quiet = false;
};

void run(const Options& options) {
  const Recipe recipe = load_recipe_argument(options.recipe, options.overrides);
  TrainOptions train_options;
  train_options.quiet = options.quiet;
  if (options.resume == "auto") {
    train_options.resume = ResumeMode::kAuto;
  } else if (!options.resume.empty()) {
    throw Error(ErrorKind::kInvalidArgument, fmt::format("'{}' is not a way to resume", options.resume), "--resume",
                "Use --resume auto.");
  }
  const TrainResult result = train(recipe, train_options);
  if (options.json) {
    nlohmann::ordered_json json = {{"step", result.step},
                                   {"loss", result.last_loss},
                                   {"validation_loss", nullptr},
                                   {"checkpoint", result.checkpoint.string()},
                                   {"interrupted", result.interrupted},
                                   {"skipped_steps", result.skipped_steps}};
    if (result.validation_loss) json["validation_loss"] = *result.validation_loss;
    output("{}\n", json.dump());
    return;
  }
  if (options.quiet) return;
  if (result.interrupted) {
    std::string again = "causeway train " + options.recipe;
    for (const std::string& text : options.overrides) again += " " + text;
    output("stopped at step {} of {}; saved {}\nContinue with: {} --resume auto\n", result.step, recipe.train.steps,
           result.checkpoint.string(), again);
    return;
  }
  if (result.checkpoint.empty()) {
    output("nothing to do: the run is at step {} of {}\n", result.step, recipe.train.steps);
    return;
  }
  output("finished {} steps; saved {}\n", result.step, result.checkpoint.string());
  if (result.validation_loss) output("validation loss: {:.4f} nats per token\n", *result.validation_loss);
}

}  // namespace

void add_train_command(CLI::App& program) {
  auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand("train", "Train a model from a recipe");
  command
      ->add_option("recipe", options->recipe,
                   "The recipe: a YAML file, or the name of one that the program brings along")
      ->required();
  command->add_option("overrides", options->overrides, "Recipe keys to change, as key=value");
  command->add_option("--resume", options->resume, "auto: continue from the run's newest checkpoint, if it has one");
  command->add_flag("--json", options->json, "Print the result as JSON");
  command->add_flag("--quiet", options->quiet, "No progress and no samples");
  command->footer("Example: causeway train recipes/shakespeare.yaml train.steps=500 optimizer.learning_rate=1e-3");
  command->callback([options] { run(*options); });
}

}  // namespace causeway
