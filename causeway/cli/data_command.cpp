#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "causeway/cli/commands.h"
#include "causeway/data/inspect.h"
#include "causeway/data/prepare.h"

namespace causeway {
namespace {

struct PrepareCommand {
  std::vector<std::string> inputs, validation_inputs;
  std::string output, tokenizer = "bytes";
  PrepareOptions options;
  bool no_end_of_text = false;
  bool json = false;
};

void prepare(PrepareCommand& command) {
  PrepareOptions& options = command.options;
  options.inputs.assign(command.inputs.begin(), command.inputs.end());
  options.validation_inputs.assign(command.validation_inputs.begin(), command.validation_inputs.end());
  options.output = command.output;
  options.append_end_of_text = !command.no_end_of_text;
  if (isatty(STDERR_FILENO) != 0 && !command.json)
    options.progress = [](const PrepareProgress& progress) {
      fmt::print(stderr, "\r{:.0f}%  {} tokens",
                 progress.bytes_total == 0
                     ? 100.0
                     : 100.0 * static_cast<double>(progress.bytes_done) / static_cast<double>(progress.bytes_total),
                 progress.tokens);
    };
  const PrepareSummary summary = prepare_dataset(options, *load_tokenizer(command.tokenizer));
  if (options.progress) fmt::print(stderr, "\r\033[K");
  nlohmann::ordered_json json = {
      {"output", command.output}, {"text_bytes", summary.text_bytes}, {"seconds", summary.seconds}};
  for (const DatasetInspection inspection = inspect_dataset(command.output);
       const SplitInspection& split : inspection.splits) {
    json["splits"][split.name] = {{"tokens", split.tokens}, {"documents", split.documents}};
    if (!command.json) fmt::print("{:<12}{} tokens in {} documents\n", split.name, split.tokens, split.documents);
  }
  if (command.json) {
    fmt::print("{}\n", json.dump());
  } else {
    fmt::print("wrote {}\n", command.output);
  }
}

void inspect(const std::string& path, int token_bytes, bool as_json) {
  const DatasetInspection inspection = inspect_dataset(path, {}, token_bytes);
  if (as_json) {
    nlohmann::ordered_json json;
    if (inspection.tokenizer)
      json["tokenizer"] = {{"name", inspection.tokenizer->name}, {"fingerprint", inspection.tokenizer->fingerprint}};
    for (const SourceFile& source : inspection.sources) json["sources"].push_back(source.path);
    for (const SplitInspection& split : inspection.splits) {
      nlohmann::ordered_json& entry = json["splits"][split.name];
      entry = {{"tokens", split.tokens}, {"documents", split.documents}};
      for (const ShardInspection& shard : split.shards)
        entry["shards"].push_back({{"path", shard.path.string()},
                                   {"tokens", shard.tokens},
                                   {"hash", shard.hash},
                                   {"hash_checked", shard.hash_checked},
                                   {"largest_token", shard.largest_token}});
    }
    fmt::print("{}\n", json.dump());
    return;
  }
  if (inspection.tokenizer) fmt::print("tokenizer   {}\n", inspection.tokenizer->name);
  for (const SourceFile& source : inspection.sources) fmt::print("source      {}\n", source.path);
  for (const SplitInspection& split : inspection.splits) {
    fmt::print("{:<12}{} tokens in {} documents\n", split.name.empty() ? "tokens" : split.name, split.tokens,
               split.documents);
    for (const ShardInspection& shard : split.shards)
      fmt::print("  {}  {} tokens of {} bytes, largest {}, hash {}{}\n", shard.path.string(), shard.tokens,
                 shard.token_bytes, shard.largest_token, shard.hash, shard.hash_checked ? " (as recorded)" : "");
  }
}

}  // namespace

void add_data_command(CLI::App& program) {
  CLI::App* data = program.add_subcommand("data", "Prepare and inspect training text");
  data->require_subcommand(1);

  auto command = std::make_shared<PrepareCommand>();
  CLI::App* prepare_command = data->add_subcommand("prepare", "Turn text or JSON Lines into tokens");
  prepare_command->add_option("inputs", command->inputs, "Text files, .jsonl files and directories of them")
      ->required();
  prepare_command->add_option("--output,-o", command->output, "Directory for the dataset")->required();
  prepare_command->add_option("--tokenizer", command->tokenizer, "bytes, or a directory with a GPT-2 vocabulary")
      ->capture_default_str();
  prepare_command->add_option("--validation", command->validation_inputs, "Inputs for the held-out split");
  prepare_command->add_option("--validation-fraction", command->options.validation_fraction,
                              "Part of the inputs to hold out");
  prepare_command->add_option("--text-key", command->options.text_key, "The key of the text in JSON Lines")
      ->capture_default_str();
  prepare_command->add_flag("--no-end-of-text", command->no_end_of_text,
                            "Do not end documents with the end-of-text token");
  prepare_command->add_flag("--overwrite", command->options.overwrite, "Replace the dataset that is there");
  prepare_command->add_flag("--json", command->json, "Print the summary as JSON");
  prepare_command->footer("Example: causeway data prepare book.txt --output data/book --validation-fraction 0.1");
  prepare_command->callback([command] { prepare(*command); });

  auto path = std::make_shared<std::string>();
  auto token_bytes = std::make_shared<int>(0);
  auto as_json = std::make_shared<bool>(false);
  CLI::App* inspect_command = data->add_subcommand("inspect", "Show what a dataset holds and check every byte of it");
  inspect_command->add_option("path", *path, "A dataset directory or a token file")->required();
  inspect_command->add_option("--token-bytes", *token_bytes, "Bytes of an id in a .bin without a header")
      ->check(CLI::IsMember({1, 2, 4}));
  inspect_command->add_flag("--json", *as_json, "Print as JSON");
  inspect_command->footer("Example: causeway data inspect data/book");
  inspect_command->callback([path, token_bytes, as_json] { inspect(*path, *token_bytes, *as_json); });
}

}  // namespace causeway
