#include "causeway/cli/data_inspect_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <memory>

#include "causeway/base/console.h"
#include "causeway/base/hash.h"
#include "causeway/cli/json_output.h"
#include "causeway/data/document_packing.h"
#include "causeway/data/inspect.h"

namespace causeway::cli {
namespace {

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

std::string text_of(const TargetsRecord& targets) {
  std::string text = targets.rule == "prompts" ? "none: prompts, with their records behind them"
                     : targets.rule == "last"  ? "the assistant's last turn"
                                               : "the assistant's turns";
  for (const TargetsRecord::Template& one : targets.templates)
    text += fmt::format(", chat template {} ({})", one.name, hash_text(one.text).hex().substr(0, 8));
  if (!targets.date.empty()) text += fmt::format(", dated {}", targets.date);
  if (targets.max_length > 0)
    text += fmt::format(", cut to {} tokens on the {}", targets.max_length, targets.truncation);
  if (!targets.weights.empty()) text += fmt::format(", counting 1 or {:g}", fmt::join(targets.weights, ", "));
  return text;
}

// What is trained on in green, or between brackets where there are no colours; a weight that is not 1 stands before it.
void show_text(const TextSample& sample) {
  if (sample.pieces.empty()) return output("{}\n", sample.text);
  const bool has_colours = ::isatty(STDOUT_FILENO) == 1;
  for (const TextSample::Piece& piece : sample.pieces) {
    if (piece.is_target) write_raw_output(has_colours ? "\x1b[32m" : "\u27e6");
    if (piece.is_target && piece.weight != 1) write_output(fmt::format("{:g} x ", piece.weight));
    write_output(piece.text);
    if (piece.is_target) write_raw_output(has_colours ? "\x1b[0m" : "\u27e7");
  }
  write_raw_output("\n");
}

void inspect_data(const InspectCommand& command) {
  const DatasetInspection inspection = inspect_dataset(command.path, {}, command.dataset);
  const std::vector<SplitDetails> details = details_of_splits(command, inspection);
  auto of_split = details.begin();
  if (command.json) {
    nlohmann::ordered_json json;
    if (inspection.tokenizer)
      json["tokenizer"] = {{"name", inspection.tokenizer->name}, {"fingerprint", inspection.tokenizer->fingerprint}};
    if (inspection.targets) json["targets"] = formats::targets_to_json(*inspection.targets);
    if (inspection.holds_pairs) json["pairs"] = true;
    if (inspection.holds_prompts) json["prompts"] = true;
    if (inspection.documents) json["documents"] = documents_json(*inspection.documents);
    for (const SourceFile& source : inspection.sources) json["sources"].push_back(source.path);
    if (!inspection.left_out.empty()) json["left_out"] = inspection.left_out;
    for (const SplitInspection& split : inspection.splits) {
      nlohmann::ordered_json& entry = json["splits"][split.name];
      entry = {{"tokens", split.tokens}, {"documents", split.documents}};
      if (inspection.targets) entry["targets"] = split.targets;
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
      for (const TextSample& sample : (of_split++)->samples) {
        nlohmann::ordered_json one = {{"position", sample.position}, {"ids", sample.ids}, {"text", sample.text}};
        if (!sample.side.empty()) one["side"] = sample.side;
        for (const TextSample::Piece& piece : sample.pieces) {
          one["pieces"].push_back({{"is_target", piece.is_target}, {"text", piece.text}});
          if (piece.is_target && piece.weight != 1) one["pieces"].back()["weight"] = piece.weight;
        }
        entry["samples"].push_back(std::move(one));
      }
    }
    output_json(json);
    return;
  }
  if (inspection.tokenizer) output("tokenizer   {}\n", inspection.tokenizer->name);
  if (inspection.documents) output("documents   {}\n", text_of(*inspection.documents));
  if (inspection.targets) output("targets     {}\n", text_of(*inspection.targets));
  for (const SourceFile& source : inspection.sources) output("source      {}\n", source.path);
  for (const std::string& file : inspection.left_out) output("not read    {}\n", file);
  for (const SplitInspection& split : inspection.splits) {
    output("{:<12}{} tokens in {}{}\n", split.name.empty() ? "tokens" : split.name, split.tokens,
           inspection.holds_pairs     ? fmt::format("{} preference pairs", split.documents / 2)
           : inspection.holds_prompts ? fmt::format("{} prompts with their records", split.documents)
                                      : fmt::format("{} documents", split.documents),
           split.targets == split.tokens || inspection.holds_prompts
               ? ""
               : fmt::format(", {} of them targets ({:.2f} %)", split.targets,
                             100 * static_cast<double>(split.targets) / static_cast<double>(split.tokens)));
    for (const ShardInspection& shard : split.shards)
      output("  {}  {} tokens of {} bytes, largest {}, hash {}{}\n", shard.path.string(), shard.tokens,
             shard.token_bytes, shard.largest_token, shard.hash, shard.hash_checked ? " (as recorded)" : "");
    if (const auto& packing = of_split->packing)
      output("  packed      {} documents in {} samples of {} tokens: {:.2f} % padding, {} documents cut\n",
             packing->documents(), packing->sample_count(), command.sequence_length, 100 * packing->padding(),
             packing->cut_documents());
    for (const TextSample& sample : (of_split++)->samples) {
      output("--- {}{} tokens from token {} on ---\n", sample.side.empty() ? "" : sample.side + ": ", sample.ids.size(),
             sample.position);
      show_text(sample);
    }
  }
}

}  // namespace

nlohmann::ordered_json documents_json(const DocumentTokens& documents) {
  return {
      {"before", documents.before}, {"after", documents.after}, {"read_special_tokens", documents.read_special_tokens}};
}

void add_data_inspect_command(CLI::App& data) {
  auto inspection = std::make_shared<InspectCommand>();
  CLI::App* inspect_command = data.add_subcommand("inspect", "Show what a dataset holds and check every byte of it");
  inspect_command->add_option("path", inspection->path, "A dataset directory or a token file")->required();
  inspect_command
      ->add_option("--token-bytes", inspection->dataset.token_bytes,
                   "Bytes of an id in a .bin without a header, or in a column of bytes of MDS")
      ->check(CLI::IsMember({1, 2, 4, 8}));
  inspect_command->add_option("--column", inspection->dataset.column, "The column of token ids in MDS")
      ->capture_default_str();
  inspect_command
      ->add_option("--samples", inspection->samples,
                   "Show so many pieces of each split as text, of conversations whole ones with "
                   "what is trained on marked")
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
