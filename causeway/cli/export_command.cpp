#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "causeway/base/byte_size.h"
#include "causeway/base/console.h"
#include "causeway/base/error.h"
#include "causeway/cli/checkpoint_argument.h"
#include "causeway/cli/commands.h"
#include "causeway/cli/json_output.h"
#include "causeway/cli/weight_options.h"
#include "causeway/model/hugging_face.h"
#include "causeway/program/context.h"
#include "causeway/train/checkpoint/run_checkpoint.h"
#include "causeway/train/hugging_face/export_checkpoint.h"

namespace causeway::cli {
namespace {

struct ExportCommandOptions {
  std::string run, output, tokenizer, device = "auto";
  WeightOptions weights;
  bool says_most_bytes = false;  // --max-shard-size was given
  bool merged = false;
  bool json = false;
};

// An adapter is one file, for the tokenizer of its base.
void refuse_options_without_effect(const ExportCommandOptions& options, const std::filesystem::path& checkpoint) {
  if (options.merged || !checkpoint_recipe(CheckpointReader(checkpoint)).adapter.is_used()) return;
  const auto refuse = [](bool is_given, const char* option, const char* why) {
    if (is_given)
      throw Error(ErrorKind::kInvalidArgument, fmt::format("has no effect on an adapter, {}", why), option,
                  "Leave it out, or say --merged.");
  };
  refuse(!options.tokenizer.empty(), "--tokenizer", "which has the tokenizer of its base");
  refuse(options.says_most_bytes, "--max-shard-size", "which is one file");
}

void run_export(const ExportCommandOptions& options) {
  ExportOptions settings;
  settings.output = options.output;
  settings.overwrite = options.weights.overwrite;
  settings.dtype = options.weights.parsed_dtype().value_or(DType::kF32);
  settings.max_file_bytes = options.weights.max_file_bytes();
  settings.tokenizer_directory = options.tokenizer;
  settings.merged = options.merged;
  const ContextScope context(Context::open(options.device));
  ExportResult result;
  read_checkpoint(options.run, [&](const std::filesystem::path& checkpoint) {
    refuse_options_without_effect(options, checkpoint);
    settings.checkpoint = checkpoint;
    result = export_checkpoint(settings);
  });
  if (options.json) {
    const nlohmann::ordered_json json = {{"checkpoint", settings.checkpoint.string()},
                                         {"output", options.output},
                                         {"step", result.step},
                                         {"family", result.family},
                                         {"parameters", result.parameters},
                                         {"dtype", dtype_name(settings.dtype)},
                                         {"bytes", result.bytes},
                                         {"tokenizer", result.tokenizer},
                                         {"probe_tokens", result.probe.tokens.size()},
                                         {"largest_difference", result.difference.largest},
                                         {"relative_difference", result.difference.relative},
                                         {"unknown_keys", result.other_entries.unknown},
                                         {"adapter_of", result.adapter_of},
                                         {"base_weights", name_of(result.base_weights)},
                                         {"base_error", result.base_error}};
    return output_json(json);
  }
  output("exported {} (step {}) to {}: {}, {} parameters in {}, {}\n", settings.checkpoint.string(), result.step,
         options.output, result.adapter_of.empty() ? result.family : "an adapter of " + result.adapter_of,
         result.parameters, dtype_name(settings.dtype), format_bytes(result.bytes));
  if (result.adapter_of.empty()) output("tokenizer: {}\n", result.tokenizer);
  for (const std::string& note : notes_on({result.other_entries.unknown, {}})) output("note: {}\n", note);
  if (result.base_weights != BaseWeights::kUnquantized && result.adapter_of.empty())
    output(
        "base: its matrices are what they were trained as, {}: what that lacks of the weights of model.from, {:.3g} of "
        "their size, is lost\n",
        result.base_weights, result.base_error);
  if (result.base_weights != BaseWeights::kUnquantized && !result.adapter_of.empty())
    output("base: the adapter was trained on it in {}\n", result.base_weights);
  if (result.difference.largest == 0)
    output("checked: {} tokens give the logits of the checkpoint, bit for bit\n", result.probe.tokens.size());
  else
    output(
        "checked: {} tokens give the logits of the checkpoint up to rounding, {:.3g} at most, {:.3g} of their size\n",
        result.probe.tokens.size(), result.difference.largest, result.difference.relative);
}

}  // namespace

void add_export_command(CLI::App& program) {
  auto options = std::make_shared<ExportCommandOptions>();
  CLI::App* command = program.add_subcommand(
      "export", "Write a trained model as a Hugging Face directory, or adapters as one of PEFT's");
  command->add_option("run", options->run, "A run directory (its newest checkpoint), or a checkpoint")->required();
  command->add_option("--output", options->output, "The directory that is written")->required();
  options->weights.dtype = "f32";
  add_weight_options(*command, options->weights, "Type of the weights: f32, bf16 or f16");
  command->add_option("--tokenizer", options->tokenizer,
                      "A directory whose tokenizer files are copied; default: the run's own");
  command->add_flag("--merged", options->merged,
                    "Of a run that trained adapters: the model with them, instead of the adapters alone");
  command->add_option("--device", options->device, "Where the check is computed: auto, cpu, cuda, hip")
      ->capture_default_str();
  command->add_flag("--json", options->json, "Print what was done as JSON");
  command->footer("Example: causeway export runs/shakespeare --output shakespeare-hf --dtype bf16");
  command->callback([options, command] {
    options->says_most_bytes = command->count("--max-shard-size") > 0;
    run_export(*options);
  });
}

}  // namespace causeway::cli
