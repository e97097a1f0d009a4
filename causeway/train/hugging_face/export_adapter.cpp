#include "causeway/train/hugging_face/export_adapter.h"

#include <algorithm>
#include <memory>
#include <set>

#include "causeway/base/error.h"
#include "causeway/data/directory_replacement.h"
#include "causeway/model/peft_adapter.h"
#include "causeway/train/checkpoint/run_checkpoint.h"

namespace causeway::train {
namespace {

namespace fs = std::filesystem;

void require_replaceable_adapter(const fs::path& output, bool overwrite) {
  static const std::set<std::string> kAdapterFiles = {kPeftConfigName, kPeftWeightsName, "README.md"};
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

}  // namespace

ExportResult export_adapter(const ExportOptions& options) {
  const CheckpointReader checkpoint(options.checkpoint);
  const Recipe recipe = checkpoint_recipe(checkpoint);
  require_replaceable_adapter(options.output, options.overwrite);
  data::DirectoryReplacement replacement(options.output);
  const std::unique_ptr<LanguageModel> model = load_checkpoint_model(checkpoint, DType::kF32);
  ExportResult result;
  ModelProbe probe(*model, probe_tokens(recipe.model, nullptr));
  const std::vector<float> expected = probe.logits();
  const std::string base = checkpoint_base(checkpoint);
  // Checkpoints of before hold the path as it was typed; the base was just read from it.
  const std::string base_directory = with_absolute_base(recipe).model_from;
  save_peft_adapter(*model, replacement.directory(), options.dtype, base_directory, base);
  for (const Parameter& parameter : model->parameters())
    if (parameter.is_adapter) result.parameters += parameter.tensor.local_bytes() / static_cast<int64_t>(sizeof(float));
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
  result.step = checkpoint.state().step;
  result.family = recipe.model.family;
  result.base_weights = recipe.adapter.base;
  result.bytes = static_cast<uint64_t>(result.parameters) * size_bytes(options.dtype);
  result.probe = probe.tokens();
  result.adapter_of = base_directory;
  return result;
}

}  // namespace causeway::train
