// The trained model that a command is given, with what belongs to it.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "causeway/formats/tokenizer/tokenizer.h"
#include "causeway/model/language_model.h"
#include "causeway/passes/pipeline_options.h"
#include "causeway/train/adapter_combination.h"
#include "causeway/train/recipe/choices.h"

namespace causeway::cli {

// --adapter, which may be given several times, and --adapter-combination.
struct AdapterArguments {
  std::vector<std::string> adapters;
  std::string combination = std::string(name_of(train::AdapterCombination::kCat));

  bool are_given() const { return !adapters.empty(); }
  // Opened, in their order. Throws Error as parse_weighted_adapter() does.
  std::vector<train::WeightedAdapter> opened() const;
  train::AdapterCombination parsed_combination() const;
};
void add_adapter_options(CLI::App& command, AdapterArguments& arguments);

struct OpenedModel {
  std::filesystem::path directory;  // the checkpoint, or the Hugging Face directory
  std::unique_ptr<LanguageModel> model;
  std::unique_ptr<Tokenizer> tokenizer;
  // Where its chat template is looked for, the first ones first.
  std::vector<std::filesystem::path> template_directories;
  // Whether what the tokenizer's files put around a text stands around its texts: always for a Hugging Face directory;
  // of a run, where it stood before the documents that the model was trained on.
  bool adds_special_tokens = true;
  // Those that end a text: of a Hugging Face directory what generation_config.json says, or else config.json, or else
  // the tokenizer; of a run what the tokenizer says.
  std::vector<int32_t> end_tokens;
  Precision precision = Precision::kF32;
  PipelineOptions pipeline;
};

// A run directory (its newest checkpoint), a checkpoint, a Hugging Face directory, or one of an adapter that PEFT can
// read, with its base, on the current device. With `adapters` it is the base of these.
// `tokenizer`: "bytes", a directory, or empty for the model's own. `precision`: nothing for the
// one it was trained with; of a Hugging Face directory, f32. Throws Error: kNotFound where there is no model or no
// tokenizer, kInvalidArgument for a tokenizer that is not the one a run was trained with, and for adapters of another
// base or beside others.
OpenedModel open_model(const std::filesystem::path& path, const std::string& tokenizer,
                       std::optional<Precision> precision, const AdapterArguments& adapters = {});

}  // namespace causeway::cli
