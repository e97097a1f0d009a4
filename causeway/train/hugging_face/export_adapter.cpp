#include "causeway/train/hugging_face/export_adapter.h"

#include <algorithm>
#include <memory>
#include <set>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/data/directory_replacement.h"
#include "causeway/formats/chat_template/template_files.h"
#include "causeway/model/peft_adapter.h"
#include "causeway/train/adapted_model.h"
#include "causeway/train/checkpoint/run_checkpoint.h"

namespace causeway::train {
namespace {

namespace fs = std::filesystem;

void require_replaceable_adapter(const fs::path& output, bool overwrite) {
  static const std::set<std::string> kAdapterFiles = {kPeftConfigName, kPeftWeightsName, "README.md",
                                                      std::string(formats::kChatTemplateFileName)};
  std::error_code code;
  if (!fs::is_directory(output, code)) return;
  bool is_empty = true;
  for (const fs::directory_entry& entry : fs::directory_iterator(output)) {
    is_empty = false;
    if (!kAdapterFiles.contains(entry.path().filename().string()))
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("the output directory holds something that is no part of an adapter: {}",
                              entry.path().filename().string()),
                  output.string(), "Choose another directory.");
  }
  if (!is_empty && !overwrite)
    throw Error(ErrorKind::kInvalidArgument, "the output directory already holds an adapter", output.string(),
                "Choose another directory, or say --overwrite to replace it.");
}

// The model with the adapters that are written.
struct ExportedAdapter {
  AdaptedModel adapted;
  int64_t step = 0;                          // of their checkpoint
  std::optional<std::string> chat_template;  // that it was trained with
};
ExportedAdapter load_exported_adapter(const ExportOptions& options) {
  if (!options.adapters.empty())
    return {load_adapted_model(options.checkpoint, options.adapters, options.combination, DType::kF32), 0, {}};
  const CheckpointReader checkpoint(options.checkpoint);
  return {{load_checkpoint_model(checkpoint, DType::kF32), checkpoint_recipe(checkpoint), checkpoint_base(checkpoint)},
          checkpoint.state().step,
          checkpoint_chat_template(checkpoint)};
}

}  // namespace

ExportResult export_adapter(const ExportOptions& options) {
  require_replaceable_adapter(options.output, options.overwrite);
  data::DirectoryReplacement replacement(options.output);
  ExportResult result;
  const ExportedAdapter exported = load_exported_adapter(options);
  result.step = exported.step;
  const AdaptedModel& adapted = exported.adapted;
  const std::unique_ptr<LanguageModel>& model = adapted.model;
  const Recipe& recipe = adapted.recipe;
  ModelProbe probe(*model, probe_tokens(recipe.model, nullptr));
  const std::vector<float> expected = probe.logits();
  const std::string& base = adapted.base_identity;
  // Checkpoints of before hold the path as it was typed; the base was just read from it.
  const std::string base_directory = with_absolute_base(recipe).model_from;
  save_peft_adapter(*model, replacement.directory(), options.dtype, base_directory, base);
  for (const Parameter& parameter : model->parameters())
    if (parameter.is_adapter) result.parameters += parameter.tensor.local_bytes() / static_cast<int64_t>(sizeof(float));
  if (exported.chat_template)
    write_file_atomically(replacement.directory() / formats::kChatTemplateFileName, *exported.chat_template);
  const PeftAdapter written = read_peft_config(replacement.directory());
  load_peft_weights(*model, replacement.directory());
  result.difference = probe_difference(expected, probe.logits());
  const bool is_same = written.adapter.rank == recipe.adapter.rank &&
                       written.adapter.scale() == recipe.adapter.scale() &&
                       written.adapter.kind == recipe.adapter.kind && written.base_identity == base &&
                       written.base_weights == recipe.adapter.base;
  if (!is_same || !(result.difference.relative <= most_relative_difference(options.dtype)))
    throw Error(ErrorKind::kCorrupt, "the adapter that was written reads back as another one: nothing was exported",
                options.checkpoint.string(),
                "Look after the disk and the machine's memory, and try again; report it if it comes again.");
  require_replaceable_adapter(options.output, options.overwrite);
  replacement.commit();
  result.family = recipe.model.family;
  result.base_weights = recipe.adapter.base;
  result.bytes = static_cast<uint64_t>(result.parameters) * size_bytes(options.dtype);
  result.probe = probe.tokens();
  result.adapter_of = base_directory;
  return result;
}

}  // namespace causeway::train
