#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "causeway/base/console.h"
#include "causeway/base/error.h"
#include "causeway/cli/commands.h"
#include "causeway/cli/json_output.h"
#include "causeway/cli/progress_report.h"
#include "causeway/cli/skipped_lines_output.h"
#include "causeway/data/document_packing.h"
#include "causeway/data/inspect.h"
#include "causeway/data/prepare.h"

namespace causeway::cli {
namespace {

struct PrepareCommand {
  std::vector<std::string> inputs, validation_inputs;
  std::string output, tokenizer = "bytes", format;
  PrepareOptions options;
  bool no_end_of_text = false, no_special_tokens = false;
  bool json = false;
};

// Set by the first SIGINT, SIGTERM or SIGHUP; the second ends the program as usual.
volatile sig_atomic_t interrupted = 0;

void end_on_signals() {
  struct sigaction action{};
  action.sa_handler = [](int) { interrupted = 1; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
}

std::string progress_line(const PrepareProgress& progress, double seconds) {
  const double rate = static_cast<double>(progress.bytes_done) / seconds;
  std::string line = fmt::format("{} tokens in {} documents, {:.1f} MB at {:.1f} MB/s", progress.tokens,
                                 progress.documents, static_cast<double>(progress.bytes_done) * 1e-6, rate * 1e-6);
  if (progress.bytes_total == 0 || progress.bytes_done == 0) return line;
  const double part = static_cast<double>(progress.bytes_done) / static_cast<double>(progress.bytes_total);
  return fmt::format("{:3.0f}%  {}, {:.0f} s to go", 100 * part, line, seconds * (1 - part) / part);
}

std::string files_by_kind(const std::map<std::string, uint64_t>& files) {
  std::string text;
  for (const auto& [kind, count] : files) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, kind);
  return text;
}

PrepareSummary run_preparation(PrepareCommand& command) {
  PrepareOptions& options = command.options;
  options.inputs.assign(command.inputs.begin(), command.inputs.end());
  options.validation_inputs.assign(command.validation_inputs.begin(), command.validation_inputs.end());
  options.output = command.output;
  options.append_end_of_text = !command.no_end_of_text;
  options.add_special_tokens = !command.no_special_tokens;
  if (!command.format.empty()) options.format = parse_text_format(command.format);
  ProgressReport report;
  end_on_signals();
  options.progress = [&](const PrepareProgress& progress) {
    if (interrupted != 0) {
      throw Error(ErrorKind::kInterrupted, "the preparation was interrupted", command.output,
                  "Nothing was written there; what was there is unchanged.");
    }
    if (!command.json) report.show([&](double seconds) { return progress_line(progress, seconds); });
  };
  return prepare_dataset(options, *load_tokenizer(command.tokenizer));
}

nlohmann::ordered_json as_json(const DocumentTokens& documents) {
  return {
      {"before", documents.before}, {"after", documents.after}, {"read_special_tokens", documents.read_special_tokens}};
}

void prepare(PrepareCommand& command) {
  const PrepareSummary summary = run_preparation(command);
  if (command.json) {
    nlohmann::ordered_json json = {{"output", command.output},
                                   {"text_bytes", summary.text_bytes},
                                   {"empty_documents", summary.empty_documents},
                                   {"null_documents", summary.null_documents},
                                   {"skipped_lines", summary.skipped_lines},
                                   {"skipped_named", summary.skipped_named},
                                   {"replaced_surrogates", summary.replaced_surrogates},
                                   {"files_left_out", summary.files_left_out},
                                   {"unverified_shards", summary.unverified_shards},
                                   {"seconds", summary.seconds}};
    if (summary.manifest.documents) json["documents"] = as_json(*summary.manifest.documents);
    for (const auto& [name, split] : summary.manifest.splits)
      json["splits"][name] = {{"tokens", split.tokens}, {"documents", split.documents}};
    output_json(json);
    return;
  }
  for (const auto& [name, split] : summary.manifest.splits)
    output("{:<12}{} tokens in {} documents\n", name, split.tokens, split.documents);
  if (summary.empty_documents > 0) {
    output("left out    {} documents without text{}\n", summary.empty_documents,
           summary.null_documents > 0 ? fmt::format(", {} of them null", summary.null_documents) : "");
  }
  show_skipped_lines(summary.skipped_lines, summary.skipped_named);
  if (summary.replaced_surrogates > 0)
    output("replaced    escaped halves of surrogate pairs in {} documents by U+FFFD\n", summary.replaced_surrogates);
  if (!summary.files_left_out.empty()) {
    output(
        "not read    {}: name them to have them read; .txt, .jsonl, .ndjson, .csv, and .json with an object a line are "
        "read by themselves\n",
        files_by_kind(summary.files_left_out));
  }
  if (summary.unverified_shards > 0)
    output(
        "unverified  {} MDS shards: their index has none of the hashes that are computed here (md5, sha1, "
        "xxh32, xxh64, xxh3_64, xxh128)\n",
        summary.unverified_shards);
  output("wrote {}\n", command.output);
}

struct InspectCommand {
  std::string path, tokenizer;
  TokenDatasetOptions dataset;
  int samples = 0;
  int64_t sequence_length = 0;
  bool json = false;
};

// Tokens of a sample: some lines of text.
constexpr uint64_t kSampleTokens = 64;

// What is shown of a split where it is asked for.
struct SplitDetails {
  std::vector<TextSample> samples;
  std::optional<DocumentPacking> packing;
};

// In the order of the inspection's splits.
std::vector<SplitDetails> details_of_splits(const InspectCommand& command, const DatasetInspection& inspection) {
  std::vector<SplitDetails> all;
  for (const SplitInspection& split : inspection.splits) {
    SplitDetails& details = all.emplace_back();
    if (command.samples == 0 && command.sequence_length == 0) continue;
    const TokenDataset dataset = TokenDataset::open(
        command.path, split.name.empty() ? kTrainSplit : std::string_view(split.name), command.dataset);
    if (command.sequence_length > 0) details.packing.emplace(dataset, 0, command.sequence_length);
    if (command.samples == 0) continue;
    const std::unique_ptr<Tokenizer> tokenizer =
        command.tokenizer.empty() ? dataset.load_tokenizer() : load_tokenizer(command.tokenizer);
    details.samples = sample_texts(dataset, *tokenizer, static_cast<uint64_t>(command.samples), kSampleTokens);
  }
  return all;
}

std::string text_of(const DocumentTokens& documents) {
  const auto list = [](const std::vector<int32_t>& ids) {
    return ids.empty() ? std::string("nothing") : fmt::format("{}", fmt::join(ids, " "));
  };
  return fmt::format("{} before each, {} behind{}", list(documents.before), list(documents.after),
                     documents.read_special_tokens ? ", special tokens read in text" : "");
}

void inspect_data(const InspectCommand& command) {
  const DatasetInspection inspection = inspect_dataset(command.path, {}, command.dataset);
  const std::vector<SplitDetails> details = details_of_splits(command, inspection);
  auto of_split = details.begin();
  if (command.json) {
    nlohmann::ordered_json json;
    if (inspection.tokenizer)
      json["tokenizer"] = {{"name", inspection.tokenizer->name}, {"fingerprint", inspection.tokenizer->fingerprint}};
    if (inspection.documents) json["documents"] = as_json(*inspection.documents);
    for (const SourceFile& source : inspection.sources) json["sources"].push_back(source.path);
    if (!inspection.left_out.empty()) json["left_out"] = inspection.left_out;
    for (const SplitInspection& split : inspection.splits) {
      nlohmann::ordered_json& entry = json["splits"][split.name];
      entry = {{"tokens", split.tokens}, {"documents", split.documents}};
      for (const ShardInspection& shard : split.shards)
        entry["shards"].push_back({{"path", shard.path.string()},
                                   {"tokens", shard.tokens},
                                   {"hash", shard.hash},
                                   {"hash_checked", shard.hash_checked},
                                   {"largest_token", shard.largest_token}});
      if (const auto& packing = of_split->packing)
        entry["packing"] = {{"sequence_length", command.sequence_length},
                            {"samples", packing->sample_count()},
                            {"documents", packing->documents()},
                            {"cut_documents", packing->cut_documents()},
                            {"padding", packing->padding()}};
      for (const TextSample& sample : (of_split++)->samples)
        entry["samples"].push_back({{"position", sample.position}, {"ids", sample.ids}, {"text", sample.text}});
    }
    output_json(json);
    return;
  }
  if (inspection.tokenizer) output("tokenizer   {}\n", inspection.tokenizer->name);
  if (inspection.documents) output("documents   {}\n", text_of(*inspection.documents));
  for (const SourceFile& source : inspection.sources) output("source      {}\n", source.path);
  for (const std::string& file : inspection.left_out) output("not read    {}\n", file);
  for (const SplitInspection& split : inspection.splits) {
    output("{:<12}{} tokens in {} documents\n", split.name.empty() ? "tokens" : split.name, split.tokens,
           split.documents);
    for (const ShardInspection& shard : split.shards)
      output("  {}  {} tokens of {} bytes, largest {}, hash {}{}\n", shard.path.string(), shard.tokens,
             shard.token_bytes, shard.largest_token, shard.hash, shard.hash_checked ? " (as recorded)" : "");
    if (const auto& packing = of_split->packing)
      output("  packed      {} documents in {} samples of {} tokens: {:.2f} % padding, {} documents cut\n",
             packing->documents(), packing->sample_count(), command.sequence_length, 100 * packing->padding(),
             packing->cut_documents());
    for (const TextSample& sample : (of_split++)->samples)
      output("--- {} tokens from token {} on ---\n{}\n", sample.ids.size(), sample.position, sample.text);
  }
}

}  // namespace

void add_data_command(CLI::App& program) {
  CLI::App* data = program.add_subcommand("data", "Prepare and inspect training text");
  data->require_subcommand(1);

  auto command = std::make_shared<PrepareCommand>();
  CLI::App* prepare_command = data->add_subcommand("prepare", "Turn text, JSON Lines or CSV into tokens");
  prepare_command
      ->add_option("inputs", command->inputs,
                   "Files of text, JSON Lines or CSV, also .gz and .zst; directories, of which all .txt, .jsonl, "
                   ".ndjson, .csv and .json with an object a line are read, or the shards of an MDS dataset "
                   "(StreamingDataset); or - for standard input")
      ->required();
  prepare_command->add_option("--output,-o", command->output, "Directory for the dataset")->required();
  prepare_command
      ->add_option("--tokenizer", command->tokenizer, "bytes, or a directory with tokenizer.json or a GPT-2 vocabulary")
      ->capture_default_str();
  prepare_command->add_option("--validation", command->validation_inputs, "Inputs for the held-out split");
  prepare_command->add_option(
      "--validation-fraction", command->options.validation_fraction,
      "Part of the inputs to hold out: documents by a hash of their text, or the end of one text");
  prepare_command
      ->add_option("--format", command->format, "text, jsonl or csv: what the inputs are, whatever they are called")
      ->check(CLI::IsMember({"text", "jsonl", "csv"}));
  prepare_command
      ->add_option("--text-key", command->options.text_key,
                   "The key of the text in JSON Lines, its column in CSV, the column of text or token ids in MDS")
      ->capture_default_str();
  prepare_command->add_flag("--no-end-of-text", command->no_end_of_text,
                            "Do not end documents with the end-of-text token");
  prepare_command->add_flag("--no-special-tokens", command->no_special_tokens,
                            "Do not put around documents what the tokenizer's files put around a text");
  prepare_command->add_flag("--read-special-tokens", command->options.read_special_tokens,
                            "Text that spells a special token becomes that token: for documents in a chat's format");
  prepare_command->add_flag("--overwrite", command->options.overwrite,
                            "Replace the dataset that is there, when the new one is whole");
  prepare_command->add_flag("--strict", command->options.strict,
                            "Lines that are no document, and documents without text, are an error");
  prepare_command->add_flag("--any-bytes", command->options.any_bytes,
                            "Take plain text that is not UTF-8, byte for byte");
  prepare_command->add_flag("--allow-shared-documents", command->options.allow_shared_documents,
                            "The same document may be in training and in validation");
  prepare_command
      ->add_option("--threads", command->options.threads, "Threads that tokenize; the result does not depend on it")
      ->check(CLI::Range(1, 4096));
  prepare_command->add_flag("--json", command->json, "Print the summary as JSON");
  prepare_command->footer(
      "Example: causeway data prepare book.txt --output data/book --validation-fraction 0.1\n"
      "         zcat articles.jsonl.gz | causeway data prepare - --format jsonl --output data/articles");
  prepare_command->callback([command] { prepare(*command); });

  auto inspection = std::make_shared<InspectCommand>();
  CLI::App* inspect_command = data->add_subcommand("inspect", "Show what a dataset holds and check every byte of it");
  inspect_command->add_option("path", inspection->path, "A dataset directory or a token file")->required();
  inspect_command
      ->add_option("--token-bytes", inspection->dataset.token_bytes,
                   "Bytes of an id in a .bin without a header, or in a column of bytes of MDS")
      ->check(CLI::IsMember({1, 2, 4, 8}));
  inspect_command->add_option("--column", inspection->dataset.column, "The column of token ids in MDS")
      ->capture_default_str();
  inspect_command->add_option("--samples", inspection->samples, "Show so many pieces of each split as text")
      ->check(CLI::Range(0, 1000));
  inspect_command->add_option("--tokenizer", inspection->tokenizer,
                              "For --samples: bytes, or a tokenizer's directory; else the dataset's own");
  inspect_command
      ->add_option(
          "--sequence-length", inspection->sequence_length,
          "Pack the documents of each split into samples of so many tokens, as data.packing=documents does, and "
          "show the share of padding")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
  inspect_command->add_flag("--json", inspection->json, "Print as JSON");
  inspect_command->footer("Example: causeway data inspect data/book --samples 3");
  inspect_command->callback([inspection] { inspect_data(*inspection); });
}

}  // namespace causeway::cli
