#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "causeway/base/byte_size.h"
#include "causeway/base/console.h"
#include "causeway/cli/commands.h"
#include "causeway/cli/json_output.h"
#include "causeway/cli/weight_options.h"
#include "causeway/model/hugging_face.h"
#include "causeway/train/hugging_face/import_model.h"

namespace causeway::cli {
namespace {

struct ImportCommandOptions {
  std::string source, output;
  WeightOptions weights;
  bool json = false;
};

std::string types_text(const ImportResult& result) {
  std::string text;
  for (const auto& [dtype, elements] : result.elements) {
    text += fmt::format("{}{}", text.empty() ? "" : " and ", dtype);
    if (result.elements.size() > 1) text += fmt::format(" ({})", elements);
  }
  return text;
}

void run_import(const ImportCommandOptions& options) {
  ImportOptions settings;
  settings.source = options.source;
  settings.output = options.output;
  settings.overwrite = options.weights.overwrite;
  settings.dtype = options.weights.parsed_dtype();
  settings.max_file_bytes = options.weights.max_file_bytes();
  const ImportResult result = import_model(settings);
  if (options.json) {
    nlohmann::ordered_json json = {{"source", options.source},
                                   {"output", options.output},
                                   {"family", result.family},
                                   {"parameters", result.parameters},
                                   {"dtypes", nlohmann::ordered_json::object()},
                                   {"bytes", result.bytes},
                                   {"tokenizer_files", result.tokenizer_files},
                                   {"left_out", result.left_out},
                                   {"unknown_keys", result.other_entries.unknown},
                                   {"only_in_training", result.other_entries.only_in_training}};
    for (const auto& [dtype, elements] : result.elements) json["dtypes"][dtype] = elements;
    return output_json(json);
  }
  output("imported {} to {}: {}, {} parameters, {}; {} written\n", options.source, options.output, result.family,
         result.parameters, types_text(result), format_bytes(result.bytes));
  output("tokenizer: {}\n", result.tokenizer_files.empty()
                                ? std::string("none")
                                : fmt::format("{}", fmt::join(result.tokenizer_files, ", ")));
  if (!result.left_out.empty())
    output("left out, for it follows from the rest: {}\n", fmt::join(result.left_out, ", "));
  for (const std::string& note : notes_on(result.other_entries)) output("note: {}\n", note);
  output("Train it with: model.from={}\n", options.output);
}

}  // namespace

void add_import_command(CLI::App& program) {
  auto options = std::make_shared<ImportCommandOptions>();
  CLI::App* command = program.add_subcommand("import", "Check a Hugging Face directory and copy what training needs");
  command->add_option("source", options->source, "A directory with config.json and safetensors files")->required();
  command->add_option("--output", options->output, "The directory that is written, for model.from")->required();
  add_weight_options(*command, options->weights, "Type of the weights: f32, bf16 or f16; default: as they are");
  command->add_flag("--json", options->json, "Print what was found as JSON");
  command->footer(
      "model.from takes either directory; an import has been read to the last byte.\n"
      "Example: causeway import Llama-3.2-1B --output models/llama-1b");
  command->callback([options] { run_import(*options); });
}

}  // namespace causeway::cli
