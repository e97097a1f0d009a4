#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "causeway/base/console.h"
#include "causeway/cli/adapter_description.h"
#include "causeway/cli/commands.h"
#include "causeway/cli/json_output.h"
#include "causeway/train/checkpoint/checkpoint_path.h"
#include "causeway/train/stored_model.h"

namespace causeway::cli {
namespace {

struct AdaptersCommandOptions {
  std::vector<std::string> adapters;
  std::string base;
  bool json = false;
};

// Of an adapter that does not say which base it was trained on nothing is known.
const char* fit_of(const train::StoredAdapter& adapter, const train::StoredModel& base) {
  return adapter.base_identity().empty() ? "unknown" : base.is_of(adapter.base_identity()) ? "same" : "another";
}

void list_adapters(const AdaptersCommandOptions& options) {
  std::unique_ptr<train::StoredModel> base;
  if (!options.base.empty())
    base = train::open_base(train::find_checkpoint(options.base).value_or(options.base).string(), "");
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const std::string& path : options.adapters) {
    const std::unique_ptr<train::StoredAdapter> adapter = train::StoredAdapter::open(path);
    const std::string fit = base == nullptr ? "" : fit_of(*adapter, *base);
    if (options.json) {
      all.push_back(adapter_json(*adapter));
      all.back().erase("weight");
      if (base != nullptr) all.back()["is_of_base"] = fit;
      continue;
    }
    output("{}\n", describe_adapter(*adapter));
    if (fit == "same") output("  trained on {}\n", options.base);
    if (fit == "another") output("  trained on another model than {}\n", options.base);
    if (fit == "unknown") output("  whether it was trained on {} is not known\n", options.base);
  }
  if (options.json) output_json({{"adapters", std::move(all)}});
}

}  // namespace

void add_adapters_command(CLI::App& program) {
  auto options = std::make_shared<AdaptersCommandOptions>();
  CLI::App* command = program.add_subcommand("adapters", "List adapters: what they are, and of which base");
  command->add_option("adapters", options->adapters, "Directories that PEFT saved, runs or checkpoints")->required();
  command->add_option("--base", options->base,
                      "A Hugging Face directory, a run or a checkpoint: says which of them were trained on it");
  command->add_flag("--json", options->json, "Print as JSON");
  command->footer("Example: causeway adapters runs/lora adapter/ --base Meta-Llama-3-8B");
  command->callback([options] { list_adapters(*options); });
}

}  // namespace causeway::cli
